//! What is guarded stays guarded when somebody outside replaces it, and what appears later under a denied name is hidden: at
//! once, though not before it is noticed. Each gap is written down.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::desk::{Desk, each_user};

const POLICY: &str = "version = 1\n[files]\ndeny = [\"**/.env\", \"**/.env.*\", \"private\", \"keys/*.pem\"]\n";

/// Takes orders: a file that is to become unreadable, one that is to become read-only, or a move.
const INSIDE: &str = r#"
import errno, os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    what, name, *more = line.split()
    until, said = time.monotonic() + 60, "nothing"
    while time.monotonic() < until:
        try:
            if what == "move":
                os.rename(name, more[0])
                said = "moved"
                break
            os.close(os.open(name, os.O_WRONLY if what == "frozen" else os.O_RDONLY))
            said = "it can be opened"
        except FileNotFoundError:
            said = "it is not there"
        except OSError as error:
            said = errno.errorcode[error.errno]
            if what in ("hidden", "move") and error.errno == errno.EACCES or what == "frozen" and error.errno == errno.EROFS:
                break
    print(said, flush=True)
"#;

/// What somebody outside does, and what becomes of which file inside.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    ("an editor saves", "echo new > .save && mv .save .env", "hidden .env", "EACCES"),
    ("once more", "echo newer > .save && mv .save .env", "hidden .env", "EACCES"),
    ("moved away and made anew", "mv .env kept && echo new > .env", "hidden .env", "EACCES"),
    ("removed and made anew", "rm .env && echo new > .env", "hidden .env", "EACCES"),
    ("a second name of something", "echo new > plain && ln -f plain .env", "hidden .env", "EACCES"),
    ("a file that did not exist", "echo new > sub/.env", "hidden sub/.env", "EACCES"),
    (
        "in a new directory",
        "mkdir -p new/deep && echo new > new/deep/.env.local",
        "hidden new/deep/.env.local",
        "EACCES",
    ),
    (
        "a whole tree arrives",
        "mkdir -p ~/t/a/b && echo new > ~/t/a/b/.env && mv ~/t tree",
        "hidden tree/a/b/.env",
        "EACCES",
    ),
    ("in a directory that was moved", "mv new newer && echo new > newer/deep/.env", "hidden newer/deep/.env", "EACCES"),
    (
        "a directory that is denied",
        "mv private p2 && mkdir private && echo k > private/key",
        "hidden private/key",
        "EACCES",
    ),
    ("it comes back", "rm -r private && mv p2 private", "hidden private/key", "EACCES"),
    ("a file becomes a directory", "rm .env && mkdir .env && echo k > .env/k", "hidden .env/k", "EACCES"),
    ("something protected", "echo new > .save && mv .save .envrc", "frozen .envrc", "EROFS"),
    (
        "in a directory that a rule knows by its name",
        "mkdir -p keys/in && echo new > keys/a.pem",
        "hidden keys/a.pem",
        "EACCES",
    ),
    ("which does not leave that name", "true", "move keys other", "EACCES"),
    ("but with nothing in it", "mv keys/a.pem ~/a.pem", "move keys other", "moved"),
    ("something moved inside", "true", "move sub moved", "moved"),
    ("in what was moved inside", "echo new > moved/.env.x", "hidden moved/.env.x", "EACCES"),
];

struct Session {
    child: Child,
    orders: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Session {
    fn start(desk: &Desk) -> Self {
        let mut command = desk.run();
        command.args(["python3", "-Ic", INSIDE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (orders, said) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut session = Self { child, orders, said };
        assert_eq!(session.line(), "ready");
        session
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.line()
    }

    fn end(mut self) {
        drop(self.orders);
        assert!(self.child.wait().unwrap().success());
    }
}

/// K8: an editor that saves a denied or protected file leaves no hole.
#[test]
fn k8_guards_stay_when_somebody_outside_replaces_a_file() {
    each_user(|desk| {
        desk.prepare(&format!("printf '{}' > ringfence.toml", POLICY.replace('\n', "\\n")));
        desk.prepare(
            "git init -q . && echo old > .env && mkdir -p sub private && echo k > private/key && echo x > .envrc",
        );
        let mut session = Session::start(&desk);
        for (sentence, change, order, expected) in CHANGES {
            desk.prepare(change);
            assert_eq!(session.ask(order), *expected, "{sentence}");
        }
        // What is not guarded is as it was.
        desk.prepare("echo new > plain2 && mkdir free");
        assert_eq!(session.ask("move plain2 free/plain"), "moved");
        session.end();
        let gaps = gaps(&desk);
        let changes = CHANGES.iter().filter(|(_, _, order, _)| !order.starts_with("move")).count();
        assert!(gaps.len() >= changes - 2, "{gaps:?}");
        // A few milliseconds where nothing else runs; how long a busy machine takes is not what is shown here.
        for (path, ms) in &gaps {
            assert!(ms.is_some_and(|ms| ms < 30_000), "{path}: {ms:?}");
        }
        assert!(gaps.iter().any(|(path, _)| path.ends_with("/tree/a/b/.env")), "{gaps:?}");
        desk.prepare("test \"$(cat sub/.env moved/.env 2>/dev/null)\" = new && test \"$(cat .envrc)\" = new");
    });
}

/// The gaps that were written down, and for how long each was.
fn gaps(desk: &Desk) -> Vec<(String, Option<u64>)> {
    let log = fs::read_to_string(desk.home(".local/state/ringfence/audit/log.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let gaps = lines.filter(|line| line["event"] == "gap");
    gaps.map(|line| (line["path"].as_str().unwrap().to_owned(), line["ms"].as_u64())).collect()
}
