//! A user with a home, settings and a project, restored for each sequence; and what shows that something of the agent's ran.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_testkit::World;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// Longer than any sequence takes on a busy machine. Only a failure waits for it.
const PATIENCE: &str = "400";

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The user that runs the tests: root in CI.
    Caller,
    /// An ordinary user, by leave of root.
    Ordinary,
}

/// A place with the user's files, always under the same path: linked work trees name each other by it.
pub(crate) struct Ground {
    /// The program.
    world: World,
    /// The user's files.
    files: TempDir,
    user: User,
    /// What connected to the listener said first.
    heard: Arc<Mutex<Vec<String>>>,
    port: u16,
    is_built: Cell<bool>,
}

/// Every entry of the directories outside of the project, with its content.
type Snapshot = BTreeMap<PathBuf, (u32, Vec<u8>)>;

impl Ground {
    /// A place where sessions can start.
    pub(crate) fn new(user: User) -> Self {
        Self::in_directory(user, "/var/tmp")
    }

    /// A place in memory, where that is possible, which is faster. No session can start there.
    pub(crate) fn in_memory(user: User) -> Self {
        Self::in_directory(user, if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/var/tmp" })
    }

    fn in_directory(user: User, at: &str) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        let files = tempfile::Builder::new().prefix("ringfence-oracle-").tempdir_in(at).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let into = Arc::clone(&heard);
        // The thread ends with the test's process.
        std::thread::spawn(move || listen(&listener, &into));
        let ground = Self { world, files, user, heard, port, is_built: Cell::new(false) };
        ground.own(ground.files.path());
        ground
    }

    /// The directory of everything that a sequence may change.
    pub(crate) fn live(&self) -> PathBuf {
        self.files.path().join("live")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.live().join("project")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn own(&self, path: &Path) {
        if self.user == User::Ordinary {
            lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Puts everything back to where it was before any agent worked.
    pub(crate) fn restore(&self) {
        let (live, template) = (self.live(), self.files.path().join("template"));
        if !self.is_built.get() {
            let script = FIXTURE.replace("@LIVE@", live.to_str().unwrap());
            fs::create_dir(&live).unwrap();
            self.own(&live);
            let built = self.shell(&live, &script);
            assert!(built.status.success(), "{}", shown(&built));
            self.copy(&live, &template);
            self.is_built.set(true);
        }
        // What a session left open to nobody, root may remove; another user makes it accessible first.
        let _ = self.shell(self.files.path(), "chmod -R u+rwX live");
        if let Err(cause) = fs::remove_dir_all(&live) {
            assert_eq!(cause.kind(), ErrorKind::NotFound, "{cause}");
        }
        self.copy(&template, &live);
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn copy(&self, from: &Path, to: &Path) {
        let copied = self.command("/bin/cp").arg("-a").args([from, to]).output().unwrap();
        assert!(copied.status.success(), "{}", shown(&copied));
    }

    fn command(&self, program: &str) -> Command {
        let live = self.live();
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", live.join("home")).env("LANG", "C.UTF-8").env("SHELL", "/bin/bash").env("TERM", "xterm");
        // No server of large files is there.
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_LFS_SKIP_PUSH", "1");
        if self.user == User::Ordinary {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// A script of the user's, outside.
    pub(crate) fn shell(&self, dir: &Path, script: &str) -> Output {
        let mut command = self.command("/usr/bin/timeout");
        command.args(["--kill-after=5", PATIENCE, "bash", "-c", script]).current_dir(dir).output().unwrap()
    }

    /// A script of the user's on a terminal: git starts its pager there.
    pub(crate) fn on_terminal(&self, script: &str) -> Output {
        let file = self.live().join("bin/user.sh");
        fs::write(&file, script).unwrap();
        let mut command = self.command("/usr/bin/timeout");
        command.args(["--kill-after=5", PATIENCE, "script", "-qec"]);
        command.arg(format!("bash {}", file.display())).arg("/dev/null");
        command.current_dir(self.project()).output().unwrap()
    }

    /// A script of the agent's, in a session.
    pub(crate) fn session(&self, dir: &Path, flags: &[&str], script: &str) -> Output {
        let mut command = self.command("/usr/bin/timeout");
        command.args(["--kill-after=5", PATIENCE]).arg(self.world.binary()).arg("run").args(flags);
        command.args(["--", "bash", "-c", script]).current_dir(dir).output().unwrap()
    }

    /// `ringfence ARGUMENTS` of the user's.
    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Output {
        self.command(self.world.binary().to_str().unwrap())
            .args(arguments)
            .current_dir(self.project())
            .output()
            .unwrap()
    }

    /// Names of canaries that were touched, and what was contacted.
    pub(crate) fn canaries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.live().join("canary")).unwrap();
        let mut found: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        if let Some(at) = found.iter().position(|name| name == "address") {
            found[at] =
                format!("address: {}", fs::read_to_string(self.live().join("canary/address")).unwrap_or_default());
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(heard.iter().map(|first| format!("address: {first}")));
        found.sort();
        found
    }

    /// What is outside of the project and no canary, and what the project's own git directories execute.
    pub(crate) fn outside(&self) -> Snapshot {
        let mut found = Snapshot::new();
        for name in ["home", "outside", "elsewhere", "bin"] {
            self.collect(&self.live().join(name), &mut found);
        }
        found
    }

    fn collect(&self, path: &Path, found: &mut Snapshot) {
        // What sessions keep, what git-lfs and git note of the user, and what the user's steps make.
        const LEFT_OUT: &[&str] =
            &["home/.local", "home/.cache", "home/.config/git-lfs", "bin/user.sh", "elsewhere/new", "elsewhere/wt2"];
        let below = path.strip_prefix(self.live()).unwrap();
        let Ok(status) = fs::symlink_metadata(path) else { return };
        if LEFT_OUT.iter().any(|name| below == Path::new(name)) {
            return;
        }
        let content = if status.is_file() {
            fs::read(path).unwrap_or_default()
        } else if status.is_symlink() {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            Vec::new()
        };
        found.insert(below.to_owned(), (status.mode(), content));
        if status.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| self.collect(&entry.unwrap().path(), found));
        }
    }

    /// Does a file of settings or a hook of the user's repositories mention a canary?
    pub(crate) fn planted(&self) -> Vec<String> {
        let script = "find . -type f \\( -name config -o -name config.worktree -o -path '*/hooks/*' \\) -path '*.git/*' \
            -exec grep -l /canary/ {} + 2>/dev/null; true";
        let said = self.shell(&self.project(), script);
        String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect()
    }
}

/// What differs between two snapshots.
pub(crate) fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let gone =
        before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("removed: {}", path.display()));
    let changed = after.iter().filter(|(path, state)| before.get(*path) != Some(state));
    gone.chain(changed.map(|(path, _)| format!("changed: {}", path.display()))).collect()
}

/// Notes what each connection says first, and answers that there is nothing.
fn listen(listener: &TcpListener, heard: &Mutex<Vec<String>>) {
    for connection in listener.incoming() {
        let Ok(mut connection) = connection else { continue };
        let _ = connection.set_read_timeout(Some(Duration::from_millis(500)));
        let mut first = [0; 200];
        let read = connection.read(&mut first).unwrap_or(0);
        let said = first[..read].escape_ascii().to_string();
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

pub(crate) fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The user's files. The user's ssh knows one host, whose repositories are local directories.
const FIXTURE: &str = r#"
set -eu
L=@LIVE@
cd $L
mkdir -p home bin outside/precious elsewhere remote canary project
echo keep > outside/precious/old; touch -d '10 days ago' outside/precious/old
echo '# the shell of the user' > home/.bashrc
cat > bin/ssh <<'END'
#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in -o | -p | -i | -F | -l) shift 2 ;; -*) shift ;; *) break ;; esac
done
host=$1; shift
case $host in
    git@host.example | host.example) exec sh -c "$*" ;;
    *) echo "$host $*" >> @LIVE@/canary/address; exit 255 ;;
esac
END
cat > bin/editor <<'END'
#!/bin/sh
for file; do test -f "$file" && echo '# looked at' >> "$file"; done
exit 0
END
chmod +x bin/ssh bin/editor
# A pack with caches, which stay on the host when a session ends.
mkdir -p home/.config/ringfence
printf 'version = 1\nextends = ["git", "go"]\n' > home/.config/ringfence/config.toml
cat > home/.gitconfig <<'END'
[user]
	name = Ada Example
	email = ada@example.com
[init]
	defaultBranch = main
[core]
	editor = @LIVE@/bin/editor
	pager = cat
	sshCommand = @LIVE@/bin/ssh
[alias]
	st = status -sb
	lg = log --oneline --graph
[diff]
	submodule = log
	tool = nothing
[difftool "nothing"]
	cmd = true
[merge]
	tool = nothing
	conflictStyle = diff3
[mergetool "nothing"]
	cmd = true
[diff "words"]
	textconv = cat
[filter "tidy"]
	clean = cat
	smudge = cat
[rerere]
	enabled = true
[status]
	submoduleSummary = true
[push]
	default = current
[pull]
	rebase = false
[tar "tgz"]
	command = gzip -cn
END
if command -v git-lfs > /dev/null; then
    git config --global filter.lfs.clean 'git-lfs clean -- %f'
    git config --global filter.lfs.smudge 'git-lfs smudge -- %f'
    git config --global filter.lfs.process 'git-lfs filter-process'
    git config --global filter.lfs.required true
fi
mkdir empty; export GIT_TEMPLATE_DIR=$PWD/empty
commit() { git add -A; git commit -qm "$1"; }

git init -q dep; cd dep
echo one > dep.txt; commit first; echo two > dep.txt; commit second
cd ..; git clone -q --bare dep remote/dep.git; rm -rf dep

cd project
git init -q
mkdir -p src .husky tools/hooks 'my hooks' .github/workflows .git/hooks .git/info
echo one > file; echo code > src/a.rs; echo words > words.txt
printf '#!/bin/sh\nexit 0\n' > .husky/pre-commit; cp .husky/pre-commit tools/hooks/; cp .husky/pre-commit 'my hooks/'
printf 'cat\n' > tools/x.sh; printf 'cat "$1"\n' > tools/text.sh; printf 'exit 1\n' > tools/watch.sh; printf 'exit 1\n' > tools/merge.sh
chmod +x .husky/pre-commit tools/hooks/* tools/*.sh my*/*
cp .husky/pre-commit .git/hooks/pre-commit; cp .husky/pre-commit .git/hooks/post-checkout
printf '*.txt diff=words\nz.bin filter=lfs diff=lfs merge=lfs -text\n' > .gitattributes
printf 'wt/\nnested/\nmirror.git/\n' > .gitignore
echo 'on: push' > .github/workflows/ci.yml
echo large > z.bin
git add .
git commit -qm first
git remote add origin git@host.example:@LIVE@/remote/origin.git
quiet() { "$@" > /dev/null 2>&1; }
quiet git submodule add --name dep git@host.example:@LIVE@/remote/dep.git lib/dep
git commit -qm module
echo two > file; git commit -qam second
git switch -qc side HEAD~1; echo side > file; echo '# side' >> .husky/pre-commit; git commit -qam side
git switch -qc topic main; echo topic > src/b.rs; git add src; git commit -qm topic; echo more >> src/b.rs; git commit -qam more
git switch -q main; git tag v1
git clone -q --bare . ../remote/origin.git
git fetch -q; git branch -q -u origin/main
quiet git clone --bare . mirror.git
git worktree add -q wt -b linked > /dev/null
quiet git -C wt submodule update --init
git worktree add -q ../elsewhere/wt2 -b second > /dev/null
git clone -q git@host.example:@LIVE@/remote/dep.git nested
echo stashed >> file; git stash -q
git init -q ../elsewhere/other; git -C ../elsewhere/other commit -q --allow-empty -m x
git -C ../elsewhere/other worktree add -q ../othertree > /dev/null 2>&1
export GIT_LFS_SKIP_SMUDGE=1
git clone -q ../remote/origin.git ../tmp; cd ../tmp; echo new > upstream; commit upstream; git push -q; cd ..; rm -rf tmp
"#;
