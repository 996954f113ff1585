//! A project, somebody who works in it, and a session that runs.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence_testkit::{World, report_skip};

const NOBODY: u32 = 65534;

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests.
    Caller,
    /// An ordinary user.
    Nobody,
}

/// Where a call is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Outside,
    Inside,
}

pub(crate) const BOTH: [From; 2] = [From::Outside, From::Inside];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a test as everybody that the caller can be.
pub(crate) fn each(test: impl Fn(&Ground)) {
    test(&Ground::new(Who::Caller));
    if is_root() {
        test(&Ground::new(Who::Nobody));
    } else {
        report_skip("as another user: the tests do not run as root");
    }
}

/// A project and a home outside every private directory, owned by an ordinary user.
pub(crate) struct Ground {
    world: World,
    pub(crate) who: Who,
}

impl Ground {
    fn new(who: Who) -> Self {
        let binary = env!("CARGO_BIN_EXE_ringfence");
        let world = if is_root() { World::open_to_all_on(Path::new("/srv"), binary) } else { World::new(binary) };
        fs::set_permissions(world.path("run"), Permissions::from_mode(0o755)).unwrap();
        let ground = Self { world, who };
        ground.write(&[
            ("project/top", "top\n"),
            ("project/src/a", "a\n"),
            ("project/docs/x", "docs\n"),
            ("project/private/key", "SECRET\n"),
            ("project/a.pem", "SECRET\n"),
            ("other/kept", "kept\n"),
            ("elsewhere/kept", "kept\n"),
            ("home/.config/ringfence/config.toml", "version = 1\n"),
            ("home/.ssh/id", "SECRET\n"),
        ]);
        std::os::unix::fs::symlink("private", ground.path("project/link")).unwrap();
        ground.policy("");
        ground
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.world.path(relative)
    }

    /// Writes files, and gives them to whoever works.
    pub(crate) fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.world.write(path, text);
        }
        if is_root() {
            ["home", "project", "run", "other", "elsewhere"].iter().for_each(|name| give_away(&self.path(name)));
        }
    }

    /// The project's policy, trusted: it writes beside the project too, and passes a variable.
    pub(crate) fn policy(&self, more: &str) {
        // A section stands once in a file.
        let (more_files, more) = match more.strip_prefix("[files]\n") {
            Some(more_files) => (more_files, ""),
            None => ("", more),
        };
        let files = format!("[files]\nwrite = [\".\", \"../other\"]\n{more_files}[env]\npass = [\"TOKEN\"]\n");
        self.write(&[("project/ringfence.toml", &format!("version = 1\n{files}{more}"))]);
        let trusted = self.ringfence().args(["trust", "--force"]).output().unwrap();
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
    }

    /// The program in the project, as whoever works, with more arguments to come.
    pub(crate) fn ringfence(&self) -> Command {
        self.by(Command::new(self.world.binary()))
    }

    /// Any command, as whoever works.
    pub(crate) fn by(&self, mut command: Command) -> Command {
        command.current_dir(self.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.path("home"));
        command.env("TOKEN", "sesame-open");
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// `$W` in a text is the world.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace("$W", self.path("").to_str().unwrap().trim_end_matches('/'))
    }

    /// A session that runs until it is dropped.
    pub(crate) fn session(&self) -> Session<'_> {
        let mut command = self.ringfence();
        command.args([
            "run",
            "--",
            "/bin/sh",
            "-c",
            "echo planted > \"$HOME/planted\"; echo \"$RINGFENCE_SESSION\"; exec cat",
        ]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut id = String::new();
        lines.read_line(&mut id).unwrap();
        assert!(!id.trim().is_empty(), "as {:?}: no session", self.who);
        Session { ground: self, child, lines, id: id.trim().to_owned() }
    }

    /// Makes one call of a shell script, in a session of its own.
    pub(crate) fn call(&self, from: From, args: &[&str], script: &str) -> Output {
        match from {
            From::Outside => self.session().call(args, script),
            From::Inside => {
                self.inside("exec \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" \"$@\"", args, script)
            }
        }
    }

    /// Runs a script in a session whose arguments are those of a call.
    pub(crate) fn inside(&self, outer: &str, args: &[&str], script: &str) -> Output {
        let args = args.iter().map(|arg| self.text(arg));
        let mut command = self.ringfence();
        command.args(["run", "--", "/bin/sh", "-c", &self.text(outer), "sh"]).args(args);
        command.args(["--", "/bin/sh", "-c", &self.text(script)]).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn check(&self, from: From, args: &[&str], script: &str, works: bool) -> String {
        let output = self.call(from, args, script);
        let shown = text(&output.stdout) + &text(&output.stderr);
        let what = format!("as {:?} from {from:?}: {args:?} {script}\n{shown}", self.who);
        assert_eq!(output.status.success(), works, "{what}");
        assert!(!shown.contains("SECRET"), "{what}");
        assert_ne!(output.status.code(), Some(125), "{what}");
        text(&output.stdout)
    }

    /// Nothing of sessions and calls is left.
    #[track_caller]
    pub(crate) fn left_nothing(&self) {
        assert!(self.left().is_empty(), "as {:?}: {:?}", self.who, self.left());
    }

    /// What was killed is collected by whoever starts next, and what is still ending then by the one after.
    #[track_caller]
    pub(crate) fn is_collected(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        drop(self.session());
        while !self.left().is_empty() {
            assert!(Instant::now() < end, "as {:?}: {:?}", self.who, self.left());
            drop(self.session());
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        let state = self.path("home/.local/state/ringfence");
        let entries = ["sessions", "calls"].into_iter().flat_map(|place| fs::read_dir(state.join(place)));
        entries.flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

/// A session that runs.
pub(crate) struct Session<'g> {
    ground: &'g Ground,
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) id: String,
}

impl Session<'_> {
    /// A call in it, with more to come.
    pub(crate) fn exec(&self, args: &[&str]) -> Command {
        let args: Vec<OsString> = args.iter().map(|arg| self.ground.text(arg).into()).collect();
        let mut command = self.ground.ringfence();
        command.args(["exec", "--within", &self.id]).args(args);
        command
    }

    pub(crate) fn call(&self, args: &[&str], script: &str) -> Output {
        self.exec(args).args(["--", "/bin/sh", "-c", &self.ground.text(script)]).output().unwrap()
    }

    /// Its own directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.ground.path("home/.local/state/ringfence/sessions").join(&self.id)
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        while self.lines.read_line(&mut rest).is_ok_and(|read| read > 0) {}
        self.child.wait().unwrap();
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())).collect()
}

fn give_away(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}
