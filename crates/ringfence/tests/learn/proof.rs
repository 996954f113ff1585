//! What is proposed is enough, and nothing of it is too much.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::lessons::lines;
use crate::place::{Place, Who, each, shown};

impl Place {
    /// A proposal is made, written, and enough; without any one of its lines something is missing again.
    #[track_caller]
    fn proves(&self, command: &[&str], expected: &[&str]) {
        let before = self.picture("project");
        let learned = self.learn(&["--yes"], command);
        assert_eq!(lines(&learned), expected, "{learned:#}");
        assert_eq!((&learned["proven"], &learned["code"]), (&true.into(), &0.into()), "{learned:#}");
        assert_eq!(self.picture("project"), before, "nothing lands");
        let words = [&["learn", "--yes", "--write", "--"], command].concat();
        self.done(&words);
        let file = self.path("project/ringfence.toml");
        let text = fs::read_to_string(&file).unwrap();
        // In an ordinary session nothing is stopped.
        let ran = self.ringfence(&[&["run", "--"], command].concat());
        assert!(ran.status.success() && !shown(&ran).contains("stopped"), "{}\n{text}", shown(&ran));
        let again = self.learn(&[], command);
        assert_eq!((lines(&again).len(), &again["proven"], &again["runs"]), (0, &true.into(), &1.into()), "{again:#}");
        let added: Vec<&str> = text.lines().filter(|line| line.contains(" risk: ")).collect();
        assert_eq!(added.len(), expected.len(), "{text}");
        for line in added {
            fs::write(&file, text.replace(&format!("{line}\n"), "")).unwrap();
            self.done(&["trust", "--force"]);
            let less = self.learn(&["--yes"], command);
            assert!(!lines(&less).is_empty(), "without {line}: {less:#}");
        }
    }
}

#[test]
fn a_script_that_reads_elsewhere() {
    each(|place| {
        place.world.write("other/data/one.txt", "1");
        place.world.write("other/data/two.txt", "2");
        place.world.write("other/unused.txt", "3");
        let script = format!(
            "assert open('{0}/data/one.txt').read() + open('{0}/data/two.txt').read() == '12'\nopen('out', 'w').write('x')\n",
            place.at("other")
        );
        place.world.write("project/job.py", script);
        let job: &[&str] = &["python3", "job.py"];
        place.proves(job, &["files.read ../other/data/one.txt", "files.read ../other/data/two.txt"]);
    });
}

#[test]
fn many_files_are_their_directory() {
    each(|place| {
        (0..5).for_each(|n| drop(place.world.write(format!("other/data/{n}.txt"), "x")));
        let command = format!("cat {0}/data/0.txt {0}/data/1.txt {0}/data/2.txt {0}/data/3.txt", place.at("other"));
        place.proves(&["sh", "-c", &command], &["files.read ../other/data"]);
    });
}

#[test]
fn writing_elsewhere() {
    each(|place| {
        place.world.mkdir("other/out");
        place.world.write("other/log", "old\n");
        let before = place.picture("other");
        let command = format!("echo x > {0}/out/new && mkdir {0}/out/d && echo y >> {0}/log", place.at("other"));
        let learned = place.learn(&["--yes"], &["sh", "-ec", &command]);
        assert_eq!(lines(&learned), ["files.write ../other/log", "files.write ../other/out"], "{learned:#}");
        assert_eq!((&learned["proven"], &learned["code"]), (&true.into(), &0.into()), "{learned:#}");
        assert_eq!(place.picture("other"), before, "nothing lands there either");
        assert!(!place.path("project/ringfence.toml").exists());
    });
}

/// Inside, what is root's belongs to somebody else, and git wants its repositories to be its user's own.
#[test]
fn git() {
    let is_root = rustix::process::geteuid().is_root();
    let place = Place::new(if is_root { Who::Ordinary } else { Who::Caller });
    let repository = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one";
    place.world.write("other/source/file", "text\n");
    let mut made = Command::new("bash");
    made.args(["-euc", repository]).current_dir(place.path("other/source")).env("HOME", place.path("home"));
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", shown(&made));
    let pull = format!(
        "git init -q -b main . && git pull -q {} HEAD && test -e file && \
         git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two",
        place.at("other/source")
    );
    place.proves(&["sh", "-ec", &pull], &["files.read ../other/source/.git"]);
}

/// Whether a directory is there can be all that counts.
#[test]
fn a_directory_that_is_only_looked_for() {
    each(|place| {
        place.world.write("other/sdk/x", "x");
        let command = format!("test -d {}", place.at("other/sdk"));
        let options: &[&str] = if place.is_open() { &[] } else { &["--yes"] };
        let learned = place.learn(options, &["sh", "-c", &command]);
        assert_eq!(lines(&learned), ["files.read ../other/sdk"], "{learned:#}");
        assert_eq!((&learned["proven"], &learned["code"]), (&true.into(), &0.into()), "{learned:#}");
        // Where it does not count it is not proposed.
        let learned = place.learn(&[], &["sh", "-c", &format!("{command}; true")]);
        assert_eq!((lines(&learned).len(), &learned["runs"]), (0, &1.into()), "{learned:#}");
    });
}

#[test]
fn cargo_with_a_crate_beside_it() {
    let cargo = PathBuf::from(std::env::var_os("CARGO").expect("cargo runs the tests"));
    let place = Place::new(Who::Caller);
    for (path, text) in [
        (
            "project/Cargo.toml",
            "[package]\nname = \"app\"\nedition = \"2021\"\n[dependencies]\nbeside = { path = \"../other/beside\" }\n",
        ),
        ("project/src/main.rs", "fn main() {\n    assert_eq!(beside::four(), 4);\n}\n"),
        ("other/beside/Cargo.toml", "[package]\nname = \"beside\"\nedition = \"2021\"\n"),
        ("other/beside/src/lib.rs", "pub mod more;\npub use more::four;\n"),
        ("other/beside/src/more.rs", "pub fn four() -> i32 {\n    4\n}\n"),
    ] {
        place.world.write(path, text);
    }
    let bin = cargo.parent().unwrap().to_path_buf();
    // The toolchain is the user's own; the pack shows it where its variable says.
    let toolchains = bin.ancestors().nth(3).unwrap().to_str().unwrap().to_owned();
    let place = Place {
        search: format!("{}:", bin.to_str().unwrap()),
        variables: vec![("RUSTUP_HOME".to_owned(), toolchains)],
        ..place
    };
    place.proves(&["cargo", "run", "-q", "--offline"], &["files.read ../other/beside"]);
}
