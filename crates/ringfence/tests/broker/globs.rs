//! Writable patterns: exactly what they name can be written.

use std::fs;

use crate::desk::{Desk, each_user, shown};

const POLICY: &str = "version = 1\n[files]\nwrite = [\"src/*.rs\", \"docs/**/*.md\"]\nprotect = [\"src/fixed.rs\"]\n";

/// Each works: a sentence and a script.
const WORKS: &[(&str, &str)] = &[
    ("a file is written", "echo x > src/a.rs"),
    ("and made", "echo x > src/new.rs"),
    ("moved", "mv src/new.rs src/newer.rs"),
    ("removed", "rm src/newer.rs"),
    ("emptied", ": > src/a.rs && truncate -s 5 src/a.rs"),
    ("its mode is changed", "chmod 600 src/a.rs && chmod 644 src/a.rs"),
    ("a second name", "ln src/a.rs src/b.rs && rm src/b.rs"),
    ("at any depth", "echo x > docs/deep/er/x.md && echo x > docs/y.md"),
    ("what is not named is read", "cat src/b.txt docs/deep/z.txt"),
    ("by another program", "python3 -c 'open(\"src/py.rs\", \"w\").write(\"x\")' && rm src/py.rs"),
    ("a copy", "cp src/b.txt src/copy.rs && rm src/copy.rs"),
];

/// Each must fail.
const FAILS: &[(&str, &str)] = &[
    ("another name is written", "echo x > src/b.txt"),
    ("another name is made", "echo x > src/n.txt"),
    ("a directory is made", "mkdir src/d.rs.d"),
    ("a level deeper", "echo x > src/deep/c.rs"),
    ("above it", "echo x > top.rs"),
    ("another name is removed", "rm -f src/b.txt"),
    ("another name becomes one that may be written", "mv src/b.txt src/b.rs"),
    ("one that may be written becomes another", "mv src/a.rs src/a.txt"),
    ("a second name of another", "ln src/b.txt src/l.rs"),
    ("a link leads to another", "ln -s b.txt src/s.rs; echo x > src/s.rs"),
    ("the mode of another", "chmod 777 src/b.txt"),
    ("the times of another", "touch -d 2001-01-01 src/b.txt"),
    ("the mode of the directory", "chmod 777 src"),
    ("the directory is moved", "mv src src2"),
    ("the directory is replaced", "mkdir /tmp/src && mv /tmp/src docs/src"),
    ("something protected", "echo x > src/fixed.rs"),
    ("by the name of a descriptor", "exec 3< src/b.txt && echo x > /proc/self/fd/3"),
    (
        "a file without a name",
        "python3 -c 'import os; f = os.open(\"src\", os.O_TMPFILE | os.O_RDWR); \
      os.link(\"/proc/self/fd/%d\" % f, \"src/t.txt\", follow_symlinks=True)'",
    ),
    ("a socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"src/sock\")'"),
    ("a pipe", "mkfifo src/pipe"),
];

fn prepare(desk: &Desk) {
    desk.prepare(&format!("printf '{}' > ringfence.toml", POLICY.replace('\n', "\\n")));
    desk.prepare(
        "mkdir -p src/deep docs/deep/er && for f in src/a.rs src/b.txt src/deep/c.rs src/fixed.rs docs/deep/z.txt top; do \
         echo old > $f; done",
    );
}

/// T4: exactly what a pattern names can be written, by any call.
#[test]
fn t4_a_writable_pattern_is_exact() {
    each_user(|desk| {
        prepare(&desk);
        desk.works(WORKS);
        let mut script = String::from("failed=0\n");
        for (sentence, attack) in FAILS {
            script +=
                &format!("if (set -e; {attack}) > /tmp/said 2>&1; then echo 'SUCCEEDS: {sentence}'; failed=1; fi\n");
        }
        let output = desk.inside(&format!("{script} exit $failed"));
        assert!(output.status.success(), "{}", shown(&output));
        for file in ["src/b.txt", "src/deep/c.rs", "src/fixed.rs", "docs/deep/z.txt", "top"] {
            assert_eq!(fs::read_to_string(desk.project(file)).unwrap(), "old\n", "{file}");
        }
        let mut names: Vec<_> =
            fs::read_dir(desk.project("src")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        // The link was allowed: its name is one that may be written.
        assert_eq!(names, ["a.rs", "b.txt", "deep", "fixed.rs", "s.rs"]);
    });
}

/// T4: without a broker nothing of it can be written, and that is said.
#[test]
fn t4_without_a_broker_a_pattern_gives_nothing() {
    each_user(|desk| {
        prepare(&desk);
        for option in [&["--no-broker"][..], &["--backend", "bwrap"]] {
            let output = desk.bare(option).args(["sh", "-c", "echo x > src/a.rs"]).output().unwrap();
            let said = shown(&output);
            assert!(
                !output.status.success() && said.contains("withheld") && said.contains("only the broker"),
                "{said}"
            );
            assert_eq!(fs::read_to_string(desk.project("src/a.rs")).unwrap(), "old\n");
        }
    });
}

const NOT_YET: &str = "version = 1\n[files]\nwrite = [\"src\", \"target\", \"a/b\"]\n";

fn prepare_not_yet(desk: &Desk) {
    desk.prepare(&format!("printf '{}' > ringfence.toml", NOT_YET.replace('\n', "\\n")));
    desk.prepare("mkdir -p src other && echo old > src/a && echo old > other/b && echo old > top");
}

/// T4: a place that may be written and does not exist yet can be made, and nothing beside it. What cannot be had is said.
#[test]
fn t4_a_writable_place_that_is_missing_can_be_made() {
    const MADE: &[(&str, &str)] = &[
        ("it is made", "mkdir target && echo x > target/x && cat target/x"),
        ("deeper", "mkdir -p target/debug/deps && echo x > target/debug/deps/y"),
        ("removed and made again", "rm -r target && mkdir target && echo x > target/x"),
        ("what is there is written", "echo new > src/a"),
    ];
    const BESIDE: &[&str] = &[
        "mkdir target2",
        "mkdir -p a/b",
        "echo x > new",
        "echo x > top",
        "echo x > other/b",
        ": > top",
        "truncate -s 0 other/b",
        "mv top target/top",
        "mv other target/other",
        "mv target away",
        "ln top target/top",
        "ln -s .. target/up; echo x > target/up/new",
        "chmod 777 top",
        "rm -f top",
        "exec 3< top && echo x > /proc/self/fd/3",
    ];
    each_user(|desk| {
        prepare_not_yet(&desk);
        desk.works(MADE);
        let script: String =
            BESIDE.iter().map(|one| format!("if (set -e; {one}); then echo 'SUCCEEDS: {one}'; fi\n")).collect();
        desk.prepare("rm -r target");
        let said = shown(&desk.inside(&format!("mkdir target\n{script}")));
        assert!(!said.contains("SUCCEEDS"), "{said}");
        for file in ["top", "other/b"] {
            assert_eq!(fs::read_to_string(desk.project(file)).unwrap(), "old\n", "{file}");
        }
        let mut names: Vec<_> =
            fs::read_dir(desk.project("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["other", "ringfence.toml", "src", "target", "top"]);
        let options = ["--ref", "/nowhere/x", "--env", "NOWHERE_SET"];
        let said = shown(&desk.bare(&options).arg("true").output().unwrap());
        // Nobody is told that these can be read or written.
        let opening = |word: &str| said.lines().find(|line| line.starts_with(word)).unwrap();
        assert!(!opening("ringfence: reads ").contains("/nowhere"), "{said}");
        let writes = opening("ringfence: writes ");
        assert!(!writes.contains("a/b") && writes.contains("target"), "{said}");
        for line in [
            "withheld: NOWHERE_SET (`--env`): it is not set",
            "a/b: nothing is there, nor is the directory that it lies in: make it before the start",
            "withheld: /nowhere/x: nothing is there",
        ] {
            assert!(said.contains(line), "{said}");
        }
        assert!(!said.contains("target: nothing"), "{said}");
    });
}

/// T4: without a broker it cannot be made, and that is said.
#[test]
fn t4_without_a_broker_what_is_missing_is_said() {
    each_user(|desk| {
        prepare_not_yet(&desk);
        for option in [&["--no-broker"][..], &["--backend", "bwrap"], &["--backend", "landlock"]] {
            let output = desk
                .bare(&[option, &["--receipt", "--ref", "/nowhere/x"]].concat())
                .args(["mkdir", "target"])
                .output()
                .unwrap();
            let said = shown(&output);
            assert!(!output.status.success() && said.contains("target: nothing is there"), "{said}");
            assert!(said.contains("/nowhere/x: nothing is there"), "{said}");
        }
    });
}

/// T4: what is missing outside the project is not made there unless its directory is writable, and that is said.
#[test]
fn t4_a_missing_place_elsewhere_is_said() {
    const POLICY: &str = r#"version = 1
[files]
view = "host"
read = ["~/shown"]
write = [".", "~/made", "~/made/in", "~/shown/later", "~/later", "/tmp/*.log"]
"#;
    const SCRIPT: &str = r#"
mkdir ~/later ../home/later
mkdir ../home/made/in && echo x > ../home/made/in/x
if mkdir ../home/shown/later; then echo SUCCEEDS; fi
python3 -c 'import os; os.fchmod(os.open("../home/shown/top", os.O_RDONLY), 0o777)' && echo SUCCEEDS
true
"#;
    each_user(|desk| {
        desk.write("policy.toml", POLICY);
        desk.prepare("cd && mkdir made shown && echo old > shown/top");
        let policy = desk.project("policy.toml");
        let output =
            desk.bare(&["--receipt", "--policy", policy.to_str().unwrap()]).args(["sh", "-c", SCRIPT]).output();
        let said = shown(&output.unwrap());
        assert!(!said.contains("SUCCEEDS") && !said.contains("made/in: nothing"), "{said}");
        assert_eq!(fs::read_to_string(desk.home("made/in/x")).unwrap(), "x\n", "{said}");
        assert!(!desk.home("later").exists() && !desk.home("shown/later").exists(), "{said}");
        for line in [
            "shown/later: nothing is there: make it before the start",
            "home/later: nothing is there, and what is made inside is the session's own: make it before the start",
            "/tmp/*.log: the session has its own there",
        ] {
            assert!(said.contains(line), "{said}");
        }
    });
}
