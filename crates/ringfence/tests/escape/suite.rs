//! Runs the rows of a topic: without any fence, where every attack must succeed, and in each fence, where it must succeed
//! exactly if the receipt says that the claim is not held.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use ringfence_testkit::{Starter, engines, report_skip};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::ground::{Ground, Mounts, Told, Who, is_root};
use super::row::{Control, Line, Row, Short};

/// How long a batch may take. It takes a second or two; a machine under load takes longer.
const LIMIT: Duration = Duration::from_secs(150);

/// Rows that are run together.
pub(crate) struct Topic {
    pub(crate) rows: &'static [Row],
    /// What whoever starts the command has open, as Python that is run before it.
    pub(crate) opened: Option<&'static str>,
}

/// The ways to build a fence, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Native,
    Bwrap,
    Landlock,
    Docker,
    Podman,
    Chroot,
}

impl Backend {
    pub(crate) const ALL: [Self; 6] =
        [Self::Native, Self::Bwrap, Self::Landlock, Self::Docker, Self::Podman, Self::Chroot];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Chroot => "chroot",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Is it made by a container engine?
    pub(crate) fn is_engine(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// Can it be had here? Without engines it is left out and said; in CI that fails.
    pub(crate) fn is_here(self) -> bool {
        if self.is_engine() && engines(Starter::Root).is_none() {
            report_skip(&format!("{}: no engines were started; `cargo xtask test` starts them", self.word()));
            return false;
        }
        // Another root directory takes a right that only root can hand on.
        if self == Self::Chroot && !is_root() {
            report_skip("chroot: the tests do not run as root");
            return false;
        }
        true
    }

    /// Who starts it in a test for one topic. Docker does the same for everybody who may ask it; Podman has root's rights, or
    /// those of the user who starts it.
    fn starters(self) -> &'static [Who] {
        match self {
            Self::Docker => &[Who::Owner],
            _ => Who::everybody(),
        }
    }
}

/// Tests for a topic: its control, and one for each way to build a fence.
macro_rules! tests {
    ($topic:expr) => {
        /// Every attack of this topic is one: without a fence it succeeds.
        #[test]
        fn without_a_fence() {
            $topic.without_a_fence();
        }

        #[test]
        fn native() {
            $topic.in_a_fence(crate::suite::Backend::Native);
        }

        #[test]
        fn bwrap() {
            $topic.in_a_fence(crate::suite::Backend::Bwrap);
        }

        #[test]
        fn landlock() {
            $topic.in_a_fence(crate::suite::Backend::Landlock);
        }

        #[test]
        fn chroot() {
            $topic.in_a_fence(crate::suite::Backend::Chroot);
        }

        #[test]
        fn docker() {
            $topic.in_a_fence(crate::suite::Backend::Docker);
        }

        #[test]
        fn podman() {
            $topic.in_a_fence(crate::suite::Backend::Podman);
        }
    };
}
pub(crate) use tests;

impl Topic {
    /// The control: each attack succeeds.
    pub(crate) fn without_a_fence(&self) {
        let mut wrong = Vec::new();
        for control in [Control::Bare, Control::Namespaces, Control::Root] {
            let wanted = |number: &usize| self.rows[*number].control == control;
            if !(0..self.rows.len()).any(|number| wanted(&number)) {
                continue;
            }
            let ground = Ground::new(self.rows);
            let numbers: Vec<usize> = ground.numbers().into_iter().filter(wanted).collect();
            if control == Control::Root && !is_root() {
                report_skip(&format!("the control of {} attacks: the tests do not run as root", numbers.len()));
                continue;
            }
            let told = self.run(&ground, &numbers, without(control)).told;
            for number in numbers {
                let told = &told[&number];
                if told.broken || !ground.succeeded(number, told) {
                    let says = self.rows[number].says;
                    wrong
                        .push(format!("row {number} ({says}) cannot fail: without a fence the attack fails: {told:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    /// Each attack succeeds exactly if the receipt says that the claim is not held.
    pub(crate) fn in_a_fence(&self, backend: Backend) {
        let mut wrong = Vec::new();
        if !backend.is_here() {
            return;
        }
        for who in backend.starters() {
            let ground = Ground::new(self.rows);
            let numbers = ground.numbers();
            if numbers.len() < self.rows.len() {
                let left_out = self.rows.len() - numbers.len();
                report_skip(&format!(
                    "{left_out} claims: what they need is made by root, and the tests do not run as root"
                ));
            }
            let run = self.run(&ground, &numbers, fence(&ground, backend, *who));
            let receipt = Receipt::from(&run.said);
            assert_eq!(receipt.json["backend"], backend.word());
            for number in numbers {
                let (row, told) = (&self.rows[number], &run.told[&number]);
                let is_out_of_the_root = backend == Backend::Chroot && row.is_outside();
                // A root holds few programs.
                let is_not_there = backend == Backend::Chroot && told.code == 127;
                let problem = match (receipt.holds_all(&ground, number, row), ground.succeeded(number, told)) {
                    _ if told.broken && !is_not_there => "the attack is broken",
                    (Some(_), true) if is_out_of_the_root => "ESCAPED from the root",
                    (Some(_), false) if is_out_of_the_root => continue,
                    (None, _) => "the receipt says nothing of it",
                    (Some(true), true) => "ESCAPED, and the receipt says that it holds",
                    (Some(false), false) if row.short == Short::Succeeds => {
                        "it holds, and the receipt says that it does not"
                    }
                    _ => continue,
                };
                wrong.push(format!(
                    "row {number} [{}, {who:?}] {}: {problem} ({:?}): {told:?}",
                    backend.word(),
                    row.says,
                    row.line
                ));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    fn run(&self, ground: &Ground, numbers: &[usize], mut command: Vec<String>) -> Run {
        if let Some(opened) = self.opened {
            let orders = ground.orders(numbers, Mounts::Shared).to_string();
            let text = format!("{opened}\nos.execv(sys.argv[2], sys.argv[2:])\n");
            let opener = ["/usr/bin/python3", "-I", "-c", &text, &orders].map(str::to_owned);
            // The user that a wrapper becomes has these open, so the wrapper comes first.
            let is_wrapped = command.first().is_some_and(|word| word == SETPRIV);
            let at = if is_wrapped { command.iter().position(|word| word == "--").unwrap() + 1 } else { 0 };
            command.splice(at..at, opener);
        }
        let driver = ["/usr/bin/python3", "-I", "-c", include_str!("driver.py")].map(str::to_owned);
        let command: Vec<String> = command.into_iter().chain(driver).collect();
        Run::of(self.rows, ground, numbers, &command)
    }
}

const SETPRIV: &str = "/usr/bin/setpriv";
const UNSHARE: &str = "/usr/bin/unshare";

/// Becomes the owner of the project.
pub(crate) fn setpriv() -> Vec<String> {
    if is_root() {
        [SETPRIV, "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"].map(str::to_owned).to_vec()
    } else {
        Vec::new()
    }
}

/// Who starts a fence of this kind: for a root, somebody with one right more, and no other.
pub(crate) fn starter(backend: Backend, who: Who) -> Vec<String> {
    let only = "-all,+sys_chroot";
    let mut words = if who == Who::Root { Vec::new() } else { setpriv() };
    if backend == Backend::Chroot && !words.is_empty() {
        let rights = ["--inh-caps", only, "--ambient-caps", only, "--bounding-set", only].map(str::to_owned);
        words.splice(1..1, rights);
    }
    words
}

/// What comes before a command that is run without a fence.
fn without(control: Control) -> Vec<String> {
    let unshare = [UNSHARE, "--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"];
    match control {
        Control::Bare => setpriv(),
        Control::Root => Vec::new(),
        Control::Namespaces => {
            setpriv().into_iter().chain(unshare.map(str::to_owned)).chain(["--mount-proc".to_owned()]).collect()
        }
    }
}

/// What comes before a command that is run in a fence.
pub(crate) fn fence(ground: &Ground, backend: Backend, who: Who) -> Vec<String> {
    fence_with(ground, backend, who, &["--policy", "ringfence.toml"])
}

/// The same, with these flags.
pub(crate) fn fence_with(ground: &Ground, backend: Backend, who: Who, policy: &[&str]) -> Vec<String> {
    let binary = ground.world.binary().to_str().unwrap();
    let root: &[&str] = if backend == Backend::Chroot {
        ground.enter_root(who);
        &["--root", "r"]
    } else {
        &[]
    };
    let words = [&[binary, "run", "--receipt", "--backend", backend.word()][..], root, policy, &["--"]].concat();
    let words = words.into_iter().map(str::to_owned);
    let rights = match who {
        Who::Root => Starter::Root,
        Who::Owner => Starter::Ordinary,
    };
    let found = if backend.is_engine() { engines(rights) } else { None };
    let found = found.map(|found| found.into_iter().map(|(name, value)| format!("{name}={value}")));
    let found = found.into_iter().flat_map(|found| ["/usr/bin/env".to_owned()].into_iter().chain(found));
    starter(backend, who).into_iter().chain(found).chain(words).collect()
}

/// How a batch ended.
struct Run {
    told: BTreeMap<usize, Told>,
    /// On its error output.
    said: String,
}

impl Run {
    /// Runs the driver, and acts outside when an attack asks for it.
    fn of(rows: &[Row], ground: &Ground, numbers: &[usize], command: &[String]) -> Self {
        let mut process = Process::start(ground, command);
        let mounts = if command.iter().any(|word| word == UNSHARE) { Mounts::OfEachRow } else { Mounts::Shared };
        writeln!(process.input(), "{}", ground.orders(numbers, mounts)).unwrap();
        let mut told = BTreeMap::new();
        let mut done = false;
        while let Some(line) = process.line() {
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not from the driver: {line}"));
            if let Some(number) = line["ask"].as_u64() {
                let act = rows[usize::try_from(number).unwrap()].meanwhile.expect("the attack asks for nothing");
                let answer = act(ground, usize::try_from(number).unwrap(), line["text"].as_str().unwrap());
                writeln!(process.input(), "{answer}").unwrap();
            } else if let Some(number) = line["row"].as_u64() {
                let one = Told {
                    code: line["code"].as_i64().unwrap(),
                    broken: line["broken"].as_bool().unwrap(),
                    output: line["output"].as_str().unwrap().to_owned(),
                };
                told.insert(usize::try_from(number).unwrap(), one);
            } else {
                done = line["done"] == true;
            }
        }
        let (status, said) = process.finish();
        assert!(done && status.success(), "the driver did not reach its end: {status}, {} told\n{said}", told.len());
        Self { told, said }
    }
}

/// A process that is ended if it takes too long.
pub(crate) struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    said: std::sync::mpsc::Receiver<String>,
    is_over: std::sync::mpsc::Sender<()>,
}

impl Process {
    /// Starts a command in the project, with the environment of the ground.
    pub(crate) fn start(ground: &Ground, command: &[String]) -> Self {
        let mut child = Command::new(&command[0]);
        child.args(&command[1..]).current_dir(ground.world.path("project")).env_clear().envs(ground.variables());
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut errors = child.stderr.take().unwrap();
        let (say, said) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            say.send(text.escape_ascii().to_string().replace("\\n", "\n"))
        });
        let (is_over, over) = channel();
        let pid = Pid::from_child(&child);
        std::thread::spawn(move || {
            // Nobody has waited for it yet, so the number is still its own.
            if over.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        });
        Self { child, output, said, is_over }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn input(&mut self) -> &mut std::process::ChildStdin {
        self.child.stdin.as_mut().unwrap()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.output.read_line(&mut line).unwrap() > 0).then_some(line)
    }

    /// Waits for its end, and returns what it wrote on its error output.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        drop(self.child.stdin.take());
        let said = self.said.recv().unwrap();
        let _ = self.is_over.send(());
        (self.child.wait().unwrap(), said)
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

/// A receipt as it was kept.
pub(crate) struct Receipt {
    pub(crate) json: Value,
}

impl Receipt {
    /// The one that a run says it has kept.
    pub(crate) fn from(said: &str) -> Self {
        // The command may have begun a line of its own by then.
        let told = said.split_once("ringfence: receipt kept as ").and_then(|(_, rest)| rest.lines().next());
        let path = told.unwrap_or_else(|| panic!("no receipt:\n{said}"));
        Self { json: serde_json::from_slice(&fs::read(path).unwrap()).unwrap() }
    }

    /// Every line, with its kind, its words and whether it holds.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let lines = self.json["claims"].as_array().unwrap().iter();
        lines.map(|line| {
            (line["name"].as_str().unwrap(), line["claim"].as_str().unwrap(), line["holds"].as_bool().unwrap())
        })
    }

    /// Do all lines hold that a row depends on? Nothing if one of them is missing.
    fn holds_all(&self, ground: &Ground, number: usize, row: &Row) -> Option<bool> {
        let other = row.and.map_or(Some(true), |line| self.holds(ground, number, line));
        Some(self.holds(ground, number, row.line)? & other?)
    }

    /// What it says of the only claim of a kind.
    pub(crate) fn holds_kind(&self, kind: &str) -> bool {
        let said: Vec<bool> = self.lines().filter(|(name, _, _)| *name == kind).map(|(_, _, holds)| holds).collect();
        assert_eq!(said.len(), 1, "{kind}");
        said[0]
    }

    /// What it says of a claim; nothing if there is no such line, or if two do not agree.
    fn holds(&self, ground: &Ground, number: usize, line: Line) -> Option<bool> {
        let words = match line {
            Line::Kind(_) => String::new(),
            Line::Words(words) => ground.words(number, words),
        };
        let of_it = self.lines().filter(|(kind, claim, _)| match line {
            Line::Kind(wanted) => *kind == wanted,
            Line::Words(_) => *claim == words,
        });
        let mut said: Vec<bool> = of_it.map(|(_, _, holds)| holds).collect();
        said.dedup();
        match said[..] {
            [holds] => Some(holds),
            _ => None,
        }
    }
}

/// Runs a whole command and returns its output.
pub(crate) fn output(ground: &Ground, command: &[String], more: &[&str]) -> Output {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).args(more).current_dir(ground.world.path("project")).env_clear();
    process.envs(ground.variables()).stdin(Stdio::null()).output().unwrap()
}

/// Runs a test for every way to build a fence, started by everybody.
pub(crate) fn every_fence(test: impl Fn(Backend, Who)) {
    for backend in Backend::ALL.into_iter().filter(|backend| backend.is_here()) {
        // For each topic it is the other.
        let whole: &[Who] = if backend == Backend::Docker && is_root() { &[Who::Root] } else { Who::everybody() };
        whole.iter().for_each(|who| test(backend, *who));
    }
}
