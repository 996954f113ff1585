//! A place to work: a home with settings, a project, and somebody who works there.

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use ringfence_testkit::{Starter, World, engines, report_skip};

use crate::lacks::{Lack, Place};

const NOBODY: u32 = 65534;

/// Longer than any table takes on a busy machine; only a failure waits for it.
const PATIENCE: &str = "170";

/// What the root is called.
const ROOT: &str = "r";

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests: root in CI. The project is the caller's own.
    Caller,
    /// An ordinary user, by root's leave. The project is theirs.
    Ordinary,
    /// Root, for an ordinary user. The project is theirs.
    RootForThem,
}

/// How the fence is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// As `ringfence run` chooses.
    Own,
    /// By Docker, for an ordinary user who may ask it.
    Docker,
    /// By Podman with root's rights.
    PodmanOfRoot,
    /// By Podman with the user's own.
    PodmanOfUser,
}

impl Fence {
    const CONTAINERS: [Self; 3] = [Self::Docker, Self::PodmanOfRoot, Self::PodmanOfUser];

    fn backend(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Docker => Some("docker"),
            Self::PodmanOfRoot | Self::PodmanOfUser => Some("podman"),
        }
    }
}

/// A name and address for commits, as most people have them.
const GIT_CONFIG: &str = "[user]\n\tname = Ada Example\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n";

pub(crate) struct Desk {
    pub(crate) world: World,
    who: Who,
    fence: Fence,
    variables: Vec<(String, String)>,
    search: String,
    root: Option<Rooted>,
}

/// The work is done in a root.
struct Rooted {
    work: PathBuf,
    lacks: &'static [Lack],
    /// Sentences of those that no table had so far.
    untried: Rc<RefCell<Vec<&'static str>>>,
}

/// Runs a case for each user that there is, in containers, and in a root of its own.
pub(crate) fn each(place: &Place, case: impl Fn(Desk)) {
    each_user(|desk| case((place.before)(desk)));
    Fence::CONTAINERS.into_iter().for_each(|fence| in_a_container(fence, |desk| case((place.before)(desk))));
    each_in_a_root(place, &case);
}

/// Runs a case for each user that there is.
pub(crate) fn each_user(case: impl Fn(Desk)) {
    case(Desk::new(Who::Caller, Fence::Own));
    if is_root() {
        case(Desk::new(Who::Ordinary, Fence::Own));
    } else {
        report_skip("as another user: the tests do not run as root");
    }
}

/// Runs a case in a root with the classes of tools that it needs. What the table lists must not work, and everything else must.
pub(crate) fn each_in_a_root(place: &Place, case: impl Fn(Desk)) {
    if !is_root() {
        report_skip("work in a root: the tests do not run as root, and nobody else can hand on the right to it");
        return;
    }
    for who in place.who {
        let mut desk = (place.before)(Desk::new(*who, Fence::Own));
        let mut command = desk.starter(desk.world.binary().to_str().unwrap());
        let made = command.args(["root", "create", ROOT, "--with", place.with]).output().unwrap();
        assert!(made.status.success(), "{}", shown(&made));
        let work = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end());
        let (project, inside) = (desk.world.path("project"), work.join(place.below));
        give_away(&project);
        fs::rename(&project, &inside).unwrap();
        std::os::unix::fs::symlink(&inside, &project).unwrap();
        let untried = Rc::new(RefCell::new(place.lacks.iter().map(|lack| lack.0).collect::<Vec<_>>()));
        desk.root = Some(Rooted { work, lacks: place.lacks, untried: Rc::clone(&untried) });
        case(desk);
        assert!(untried.borrow().is_empty(), "listed as what a root lacks, and nowhere tried: {:?}", untried.borrow());
    }
}

fn in_a_container(fence: Fence, case: impl Fn(Desk)) {
    if !is_root() {
        return report_skip("in a container: the tests do not run as root");
    }
    if engines(Starter::Root).is_none() {
        return report_skip("in a container: no engines were started; `cargo xtask test` starts them");
    }
    let who = if fence == Fence::PodmanOfRoot { Who::RootForThem } else { Who::Ordinary };
    case(Desk::new(who, fence));
}

impl Desk {
    fn new(who: Who, fence: Fence) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        world.write("home/.gitconfig", GIT_CONFIG);
        let starter = if who == Who::Ordinary { Starter::Ordinary } else { Starter::Root };
        let variables = fence.backend().and_then(|_| engines(starter)).unwrap_or_default();
        let desk = Self { world, who, fence, variables, search: "/usr/local/bin:/usr/bin:/bin".to_owned(), root: None };
        desk.hand_over();
        desk
    }

    pub(crate) fn project(&self, path: &str) -> PathBuf {
        let project = self.world.path("project");
        fs::canonicalize(&project).unwrap_or(project).join(path)
    }

    pub(crate) fn home(&self, path: &str) -> PathBuf {
        self.world.path("home").join(path)
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.world.write(self.project(path), text);
        self.hand_over();
    }

    /// Writes a file in the user's own home.
    pub(crate) fn write_home(&self, path: &str, text: &str) {
        self.world.write(self.home(path), text);
        self.hand_over();
    }

    /// Sets a variable of the user outside.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a directory first on the user's PATH.
    pub(crate) fn searching(mut self, dir: &Path) -> Self {
        self.search = format!("{}:{}", dir.to_str().unwrap(), self.search);
        self
    }

    /// Everything belongs to whoever works.
    pub(crate) fn hand_over(&self) {
        if self.who != Who::Caller {
            give_away(&self.world.path("home"));
            give_away(&self.project(""));
        }
    }

    /// A command of the user, outside, in the project.
    pub(crate) fn outside(&self, program: &str) -> Command {
        let mut command = self.anybody(program);
        if self.who != Who::Caller {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// A directory outside of the project that whoever works may have there, and sees inside if something of the project's is.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.root.as_ref().map_or_else(|| self.home(path), |root| root.work.join(path))
    }

    /// Whether the work is done in a root.
    pub(crate) fn is_in_a_root(&self) -> bool {
        self.root.is_some()
    }

    /// Whether root works, in the home of an ordinary user.
    pub(crate) fn is_roots(&self) -> bool {
        self.who == Who::RootForThem
    }

    /// A command of whoever starts sessions.
    pub(crate) fn starter(&self, program: &str) -> Command {
        match (self.who, &self.root) {
            (Who::RootForThem, _) => self.anybody(program),
            (_, None) => self.outside(program),
            (_, Some(_)) => {
                // The right that is needed, and no other.
                let only = "-all,+sys_chroot";
                let mut command = self.anybody("/usr/bin/setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", only]);
                command.args(["--ambient-caps", only, "--bounding-set", only, "--", program]);
                command
            }
        }
    }

    fn anybody(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.world.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", &self.search).env("HOME", self.world.path("home"));
        command.env("LANG", "C.UTF-8").env("SHELL", "/bin/bash").env("TERM", "xterm");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A shell script of the user, outside, which must succeed.
    #[track_caller]
    pub(crate) fn prepare(&self, script: &str) {
        let mut command = self.outside("/bin/bash");
        let output = command.args(["-euc", script]).output().unwrap();
        assert!(output.status.success(), "outside, as {:?}: {script}\n{}", self.who, shown(&output));
    }

    /// `ringfence run -- ...`, still without its command.
    pub(crate) fn run(&self) -> Command {
        self.run_with(&[])
    }

    pub(crate) fn run_with(&self, more: &[&str]) -> Command {
        let mut command = self.starter("/usr/bin/timeout");
        command.args(["--kill-after=5", PATIENCE]).arg(self.world.binary());
        command.arg("run").args(self.flags()).args(more).arg("--");
        command
    }

    /// How the fence is built, as flags of `run`.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        match (&self.root, self.fence.backend()) {
            (Some(_), _) => vec!["--backend", "chroot", "--root", ROOT],
            (None, Some(backend)) => vec!["--backend", backend],
            (None, None) => Vec::new(),
        }
    }

    /// `ringfence run ... --`, as one line of shell.
    pub(crate) fn line(&self) -> String {
        format!("{} run {} --", self.world.binary().to_str().unwrap(), self.flags().join(" "))
    }

    /// `ringfence run FLAGS --`, with nobody in between, still without its command.
    pub(crate) fn bare(&self, flags: &[&str]) -> Command {
        let mut command = self.starter(self.world.binary().to_str().unwrap());
        command.arg("run").args(self.flags()).args(flags).arg("--");
        command
    }

    /// Runs a script inside.
    pub(crate) fn inside(&self, script: &str) -> Output {
        self.run().args(["bash", "-euc", script]).output().unwrap()
    }

    /// All of these work inside, in one session, but those that the table lists: they must not. Each is a sentence and a script.
    #[track_caller]
    pub(crate) fn works(&self, actions: &[(&str, &str)]) {
        let lacks = self.root.as_ref().map_or(&[][..], |root| root.lacks);
        let lacks: Vec<&Lack> =
            lacks.iter().filter(|lack| actions.iter().any(|(sentence, _)| *sentence == lack.0)).collect();
        let mut command = self.run_with(if lacks.is_empty() { &[] } else { &["--receipt"] });
        command.args(["bash", "-c", EACH_ACTION, "actions"]);
        command.args(actions.iter().flat_map(|(sentence, script)| [sentence, script]));
        // The reason is looked at too, as far as a program can.
        for Lack(sentence, why) in &lacks {
            command.args([format!("why not: {sentence}").as_str(), &why.shown()]);
        }
        let output = command.output().unwrap();
        let said = shown(&output);
        let works = |sentence: &str| said.contains(&format!("works: {sentence}\n"));
        for (sentence, _) in actions {
            let lack = lacks.iter().find(|lack| lack.0 == *sentence);
            match lack {
                None => assert!(works(sentence), "as {:?}: {sentence}\n{said}", self.who),
                Some(Lack(_, why)) => {
                    assert!(!works(sentence), "as {:?}, listed as {why:?} and works: {sentence}\n{said}", self.who);
                    let why_not = format!("why not: {sentence}");
                    let is_told = said.contains(why.on_receipt());
                    assert!(works(&why_not) && is_told, "as {:?}, it is not for {why:?}: {sentence}\n{said}", self.who);
                }
            }
        }
        assert_eq!(output.status.success(), lacks.is_empty(), "as {:?}:\n{said}", self.who);
        if let Some(root) = &self.root {
            root.untried.borrow_mut().retain(|sentence| !actions.iter().any(|(tried, _)| tried == sentence));
        }
    }
}

/// Takes sentences and scripts in turn, and says of each how it went. What a script leaves running holds nothing up.
const EACH_ACTION: &str = r#"
failed=0
while [ $# -gt 0 ]; do
    if bash -euc "$2" >/tmp/said 2>&1 </dev/null; then
        echo "works: $1"
    else
        echo "FAILS with $?: $1"
        { printf '%s\n' "$2"; cat /tmp/said; } | sed 's/^/    /'
        failed=1
    fi
    shift 2
done
exit $failed
"#;

/// What a session that runs there has moved or removed meanwhile is nobody's any more.
fn give_away(path: &Path) {
    match try_give_away(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
        done => done.unwrap(),
    }
}

/// A file with several names is one of the toolchain's, which stays whose it is.
fn try_give_away(path: &Path) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() || std::os::unix::fs::MetadataExt::nlink(&metadata) == 1 {
        lchown(path, Some(NOBODY), Some(NOBODY))?;
    }
    if metadata.is_dir() {
        fs::read_dir(path)?.for_each(|entry| give_away(&entry.unwrap().path()));
    }
    Ok(())
}

pub(crate) fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| -> String {
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.push_str(&chunk.invalid().escape_ascii().to_string());
        }
        text
    };
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Everybody may enter and read it.
pub(crate) fn open(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
