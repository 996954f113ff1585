//! A world for one batch of rows: each row has a directory of its own in the project, in another project and in the home.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use ringfence_testkit::World;
use serde_json::{Value, json};

use super::row::{Attack, List, MadeBy, Row, Sign, Thing};

/// The ordinary user.
pub(crate) const NOBODY: u32 = 65534;

/// Who starts a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Root, for the owner of the project.
    Root,
    /// The owner of the project: an ordinary user.
    Owner,
}

impl Who {
    /// Everybody that the caller can be.
    pub(crate) fn everybody() -> &'static [Self] {
        if is_root() { &[Self::Root, Self::Owner] } else { &[Self::Owner] }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A batch's world and whoever lives in it.
pub(crate) struct Ground {
    pub(crate) world: World,
    rows: &'static [Row],
    nonce: String,
    before: BTreeMap<usize, Snapshot>,
    sleepers: BTreeMap<usize, Mutex<Child>>,
    outsider: Option<Mutex<Outsider>>,
    pub(crate) found: Value,
}

impl Ground {
    pub(crate) fn new(rows: &'static [Row]) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        let place = world.path("");
        let nonce = place.file_name().unwrap().to_str().unwrap().trim_start_matches("ringfence-world-").to_owned();
        // A session for another user goes through these.
        for dir in ["home/.local/state/ringfence/sessions", "other"] {
            fs::create_dir_all(world.path(dir)).unwrap();
        }
        let mut ground = Self {
            // Without rows nobody asks for one.
            outsider: (!rows.is_empty()).then(|| Mutex::new(Outsider::start())),
            world,
            rows,
            nonce,
            before: BTreeMap::new(),
            sleepers: BTreeMap::new(),
            found: Value::Null,
        };
        ground.make();
        for (number, row) in rows.iter().enumerate() {
            match row.sign {
                Sign::Changed(place) => {
                    ground.before.insert(number, Snapshot::of(&ground.place(number, place)));
                }
                Sign::Struck => {
                    let sleeper = as_owner(Command::new("/bin/sleep").arg("300")).spawn().unwrap();
                    ground.sleepers.insert(number, Mutex::new(sleeper));
                }
                _ => {}
            }
        }
        if ground.outsider.is_some() {
            ground.found = ground.settle();
        }
        ground
    }

    /// The rows that can be run here.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        let can_be_made = |number: &usize| self.rows[*number].made_by == MadeBy::Anybody || is_root();
        (0..self.rows.len()).filter(can_be_made).collect()
    }

    /// Everything that the rows ask for.
    fn make(&self) {
        for number in 0..self.rows.len() {
            for place in ["here/", "out/", "home/"] {
                fs::create_dir_all(self.place(number, place)).unwrap();
            }
            self.make_files(number);
        }
        self.world.write("project/ringfence.toml", self.policy());
        if is_root() {
            for dir in ["project", "other", "home"] {
                give_away(&self.world.path(dir));
            }
            self.borrowed().iter().filter(|dir| dir.exists()).for_each(|dir| give_away(dir));
        }
        // What only root can make is made after everything was given away.
        for number in self.numbers() {
            if let Some(before) = self.rows[number].before {
                before(self, number);
            }
        }
    }

    fn make_files(&self, number: usize) {
        for thing in self.rows[number].files {
            let (Thing::File(place, _) | Thing::Dir(place) | Thing::Link(place, _) | Thing::Name(place, _)) = *thing;
            let path = self.place(number, place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match *thing {
                Thing::File(_, text) => fs::write(&path, self.words(number, text)).unwrap(),
                Thing::Dir(_) => fs::create_dir_all(&path).unwrap(),
                Thing::Link(_, target) => symlink(self.words(number, target), &path).unwrap(),
                Thing::Name(_, of) => fs::hard_link(self.place(number, of), &path).unwrap(),
            }
        }
    }

    /// The policy of the project, with what each row adds.
    fn policy(&self) -> String {
        let mut lists: BTreeMap<List, BTreeSet<String>> = BTreeMap::new();
        lists.entry(List::Deny).or_default().insert("**/.env".to_owned());
        lists.entry(List::Protect).or_default().insert("**/infra".to_owned());
        lists.entry(List::Write).or_default().insert(".".to_owned());
        for (number, row) in self.rows.iter().enumerate() {
            for (list, entry) in row.policy {
                lists.entry(*list).or_default().insert(self.words(number, entry).replace("ROW", &name(number)));
            }
        }
        let mut text = "version = 1\n[files]\n".to_owned();
        for (list, entries) in lists {
            let word = match list {
                List::Deny => "deny",
                List::Protect => "protect",
                List::Read => "read",
                List::Write => "write",
            };
            let entries: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
            text += &format!("{word} = [{}]\n", entries.join(", "));
        }
        text
    }

    /// Tells the outsider what is wanted, and who it then is.
    fn settle(&self) -> Value {
        let all = |pick: fn(&Row) -> &'static [&'static str]| -> Vec<PathBuf> {
            let rows = self.rows.iter().enumerate();
            rows.flat_map(|(number, row)| pick(row).iter().map(move |place| self.place(number, place))).collect()
        };
        let wanted = json!({
            "secret": self.secret(usize::MAX),
            "nonce": self.nonce,
            "heard": self.heard(),
            "directory": self.world.path("other"),
            "sockets": all(|row| row.sockets),
            "datagrams": all(|row| row.datagrams),
            "numbers": numbers(),
            "offers": self.offers(),
        });
        serde_json::from_str(&self.tell(&wanted.to_string())).unwrap()
    }

    /// A place of a row, as an absolute path.
    pub(crate) fn place(&self, number: usize, place: &str) -> PathBuf {
        let (first, rest) = place.split_once('/').unwrap_or((place, ""));
        let base = match first {
            "here" => return below(self.project().join(name(number)), rest),
            "project" => return below(self.project(), rest),
            "out" => format!("other/{}", name(number)),
            "home" => format!("home/{}", name(number)),
            "tmp" | "shm" => return self.borrowed()[usize::from(first == "shm")].join(name(number)).join(rest),
            other => panic!("{other}: a place is here, out, home, project, tmp or shm"),
        };
        below(self.world.path(base), rest)
    }

    /// Where the project really is.
    pub(crate) fn project(&self) -> PathBuf {
        let place = self.world.path("project");
        fs::canonicalize(&place).unwrap_or(place)
    }

    /// Makes a root for whoever starts, and moves the project into it. A link stays behind.
    pub(crate) fn enter_root(&self, who: Who) {
        let project = self.world.path("project");
        if project.is_symlink() {
            return;
        }
        let mut command = Command::new(self.world.binary());
        command.args(["root", "create", "r", "--with", "git,shell,python"]);
        let made = match who {
            Who::Root => &mut command,
            Who::Owner => as_owner(&mut command),
        };
        let made = made.env_clear().envs(self.variables()).output().unwrap();
        assert!(made.status.success(), "{}", made.stderr.escape_ascii());
        let work = String::from_utf8(made.stdout).unwrap();
        let work = Path::new(work.trim_end());
        fs::rename(&project, work).unwrap();
        symlink(work, &project).unwrap();
    }

    /// Directories of the host's that every session has its own of.
    fn borrowed(&self) -> [PathBuf; 2] {
        ["/tmp", "/dev/shm"].map(|dir| Path::new(dir).join(format!("ringfence-escape-{}", self.nonce)))
    }

    /// A text with the row's secret and its places in it.
    pub(crate) fn words(&self, number: usize, text: &str) -> String {
        let mut text = text.replace("$SECRET", &self.secret(number));
        for place in ["here", "out", "home", "project", "tmp", "shm"] {
            let path = self.place(number, place);
            text = text.replace(&format!("${place}"), path.to_str().unwrap());
        }
        text
    }

    /// What a row's secret files hold. Each row has its own, and the outsider has one.
    pub(crate) fn secret(&self, number: usize) -> String {
        format!("secret-{number}-{}\n", self.nonce)
    }

    fn heard(&self) -> PathBuf {
        self.world.path("other/heard")
    }

    /// What the attacks want of the outsider: they say `OUTSIDER['name']`.
    fn offers(&self) -> BTreeSet<&'static str> {
        let texts = self.rows.iter().map(|row| match row.attack {
            Attack::Python(text) | Attack::Shell(text) => text,
        });
        let names = texts.flat_map(|text| text.split("OUTSIDER['").skip(1)).filter_map(|rest| rest.split('\'').next());
        // What is open when a command starts is a connection.
        names.chain(["tcp4"]).collect()
    }

    fn tell(&self, line: &str) -> String {
        self.outsider.as_ref().unwrap().lock().unwrap().tell(line)
    }

    /// Has the outsider listen on one more socket.
    pub(crate) fn listen(&self, path: &Path) {
        assert_eq!(self.tell(path.to_str().unwrap()), "listening\n");
    }

    /// What the driver is told.
    pub(crate) fn orders(&self, numbers_of_rows: &[usize], mounts: Mounts) -> Value {
        let row = |number: &usize| {
            let number = *number;
            let (kind, text) = match self.rows[number].attack {
                Attack::Python(text) => ("python", text),
                Attack::Shell(text) => ("sh", text),
            };
            json!({
                "number": number,
                "kind": kind,
                "text": text,
                "here": self.place(number, "here"),
                "out": self.place(number, "out"),
                "home": self.place(number, "home"),
                "tmp": self.place(number, "tmp"),
                "shm": self.place(number, "shm"),
                "sleeper": self.sleepers.get(&number).map_or(0, |sleeper| sleeper.lock().unwrap().id()),
            })
        };
        json!({
            "rows": numbers_of_rows.iter().map(row).collect::<Vec<_>>(),
            "project": self.project(),
            "outsider": self.found,
            "isolate": mounts == Mounts::OfEachRow,
            "numbers": numbers(),
        })
    }

    /// The environment of whoever starts: what rows put there, and what a user has.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), self.world.path("home").to_str().unwrap().to_owned()),
        ];
        for (number, row) in self.rows.iter().enumerate() {
            let own = row.variables.iter().map(|(name, value)| ((*name).to_owned(), self.words(number, value)));
            all.extend(own.map(|(name, value)| (name, value.trim().to_owned())));
        }
        all
    }

    /// Did the attack of this row succeed?
    pub(crate) fn succeeded(&self, number: usize, told: &Told) -> bool {
        let shows = |text: &str| told.output.contains(text.trim());
        match self.rows[number].sign {
            Sign::Secret => shows(&self.secret(number)) || shows(&self.secret(usize::MAX)),
            Sign::Says(text) => shows(text),
            Sign::Works => told.code == 0,
            Sign::Changed(place) => self.before[&number] != Snapshot::of(&self.place(number, place)),
            Sign::Exists(place) => fs::symlink_metadata(self.place(number, place)).is_ok(),
            Sign::Heard => {
                let word = format!("heard-{number}-");
                fs::read_to_string(self.heard()).unwrap_or_default().contains(&word)
            }
            Sign::Struck => is_struck(&mut self.sleepers[&number].lock().unwrap()),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for sleeper in self.sleepers.values_mut() {
            let sleeper = sleeper.get_mut().unwrap();
            // One that an attack ended cannot be ended again.
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        for dir in self.borrowed() {
            // Most worlds borrow nothing.
            let _ = fs::remove_dir_all(dir);
        }
        if !is_root() {
            // A session that was killed and an overlay leave directories that their owner cannot list, and so not remove.
            let _ = Command::new("/bin/chmod").args(["-R", "u+rwX"]).arg(self.world.path("")).output();
        }
    }
}

/// Who sees what an attack mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounts {
    /// Everybody: the driver has no right to give each its own.
    Shared,
    /// Only the row itself.
    OfEachRow,
}

/// What the driver says of one attack.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) code: i64,
    pub(crate) broken: bool,
    pub(crate) output: String,
}

/// Has a process ended, or was it stopped?
fn is_struck(child: &mut Child) -> bool {
    if child.try_wait().unwrap().is_some() {
        return true;
    }
    is_stopped(child.id())
}

/// Is this process stopped?
pub(crate) fn is_stopped(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && line.contains("stopped"))
}

/// The numbers of system calls that have no function in the C library.
fn numbers() -> Value {
    let names = [
        "add_key",
        "bpf",
        "clone",
        "clone3",
        "fsopen",
        "getppid",
        "io_uring_setup",
        "ioprio_set",
        "keyctl",
        "migrate_pages",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "perf_event_open",
        "pivot_root",
        "request_key",
        "syslog",
        "userfaultfd",
    ];
    names
        .iter()
        .map(|name| (*name, ringfence_sys::seccomp::number(name)))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect()
}

fn below(base: PathBuf, rest: &str) -> PathBuf {
    if rest.is_empty() { base } else { base.join(rest) }
}

fn name(number: usize) -> String {
    format!("r{number:02}")
}

/// As the owner of the project; the caller itself where it is no root.
pub(crate) fn as_owner(command: &mut Command) -> &mut Command {
    if is_root() { command.gid(NOBODY).uid(NOBODY) } else { command }
}

/// Gives a tree to the ordinary user.
pub(crate) fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

/// A program of root's in a place of a row, with this mode.
pub(crate) fn of_root(ground: &Ground, number: usize, place: &str, mode: u32) -> PathBuf {
    let path = ground.place(number, place);
    fs::copy("/usr/bin/id", &path).unwrap();
    if is_root() {
        chown(&path, Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// The outsider, and both ends of its pipes. It ends when these are closed.
struct Outsider {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Outsider {
    fn start() -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-I", "-c", include_str!("outsider.py")]).env_clear().env("OUTSIDER", "secret-of-the-outsider");
        let mut child = as_owner(command.stdin(Stdio::piped()).stdout(Stdio::piped())).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// Says a line, and returns the answer.
    fn tell(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the outsider has ended");
        answer
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Everything about a place that an attack could change.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    metadata: Option<(u64, u32, u32, u32, i64, i64)>,
    content: Vec<u8>,
    attributes: Vec<u8>,
}

impl Snapshot {
    fn of(path: &Path) -> Self {
        let found = fs::symlink_metadata(path).ok();
        let content = match &found {
            Some(found) if found.is_file() => fs::read(path).unwrap_or_default(),
            Some(found) if found.is_symlink() => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        let mut attributes = vec![0; 4096];
        let length = rustix::fs::llistxattr(path, &mut attributes[..]).unwrap_or(0);
        attributes.truncate(length);
        let metadata =
            found.map(|found| (found.ino(), found.mode(), found.uid(), found.gid(), found.mtime(), found.mtime_nsec()));
        Self { metadata, content, attributes }
    }
}

/// Lets everybody read and write a file.
pub(crate) fn open_to_owner(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
}
