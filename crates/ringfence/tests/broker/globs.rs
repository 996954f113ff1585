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
