//! Lines that are classified as read-only are run for real, by every shell that a client may use, and nothing may change: no
//! name, mode, size, time or link in the project, the home and the temporary directories.
//!
//! This is about lines, whatever fence they run in: the native one shows it.

#[path = "../../../ringfence-surface/tests/command/rows.rs"]
mod rows;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_surface::command::{Class, Git, classify};
use ringfence_testkit::report_skip;

use crate::desk::{Desk, each_user, shown};
use rows::{Expected, Row, rows};

/// Files that the lines name, names that look like options and commands, and an index that a look would refresh.
const PROJECT: &str = r#"
mkdir -p src docs a b
printf 'one\ntwo w\nthree e\n' > README.md
printf 'fn main() {}\n// TODO todo\n' > src/main.rs
cp src/main.rs src/a.rs; cp src/main.rs src/b.rs; cp README.md docs/c.md
printf 'a:1 5\nb:2 7\n' > a.txt; printf 'a:1 5\nc:3 9\n' > b.txt; cp a.txt file; cp a.txt x
printf '{"a": {"b": 1}}\n' > data.json; printf 'a: 1\n' > data.yaml
tar -cf a.tar README.md src; gzip -c a.txt > a.gz; zip -q a.zip x
git init -q; git add -A; git commit -qm first; echo more >> README.md; git commit -qam second
git tag v1; git branch feature/x; git remote add origin .; echo s >> a.txt; git stash -q
touch -d '2020-01-01' README.md src/main.rs
printf x > ./-o; printf x > ./-n; printf x > './a b'; printf x > './$(touch planted)'; printf x > './;touch planted'
"#;

/// A directory that looks like a bare repository, as an edit tool could write it, with settings that start a program.
const PLANTED: &str = r#"
mkdir -p bare/objects bare/refs
printf 'ref: refs/heads/main\n' > bare/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch planted; false"\n\tpager = "touch planted"\n[diff]\n\texternal = "touch planted"\n' > bare/config
cp -r .git/objects/. bare/objects/; cp -r .git/refs/. bare/refs/; cp .git/index bare/index
"#;

/// The arguments: the shell, then lines. Says what each of them changed. A change of its time shows every change of a file. The
/// times of the temporary directories themselves are left out: zsh keeps a here-document in a file there while it is read. So is
/// ringfence itself: other tests link it elsewhere, which changes a time of it.
const DRIVER: &str = r#"
list() { find "$@" ! -path '*/given/ringfence' -printf '%p %i %y %m %u %s %T@ %C@ %l\n' 2> /dev/null; }
state() { { list . "$HOME"; list /tmp /var/tmp -mindepth 1; } | sort; }
shell=$1; shift
before=$(state); ran=0; worked=0; failed=; tried=
for line; do
    timeout 30 "$shell" -c "$line" > /dev/null 2>&1 < /dev/null
    case $? in 0) worked=$((worked + 1)) ;; 124) printf 'HANGS: %s\n' "$line" ;; *) failed+="$line"$'\n' ;; esac
    ran=$((ran + 1)); tried+="$line"$'\n'
    # A look at everything takes longer than most lines, so ten share one.
    [ $((ran % 10)) = 0 ] || [ $ran = $# ] || continue
    after=$(state)
    if [ "$before" != "$after" ]; then
        printf 'CHANGES: one of\n%s' "$tried"
        diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") | head -5
        before=$after
    fi
    tried=
done
echo "ran $ran"
[ $((worked * 100)) -ge $((ran * 80)) ] || printf 'FAIL MOSTLY: %s\n' "$failed"
"#;

#[track_caller]
fn change_nothing(desk: &Desk, shell: &str, lines: &[Vec<u8>]) -> String {
    if !Path::new(shell).exists() {
        report_skip(&format!("{shell}: it is not installed"));
        return String::new();
    }
    let mut command = desk.run();
    command
        .args(["bash", "-c", DRIVER, "driver", shell])
        .args(lines.iter().map(|line| std::ffi::OsStr::from_bytes(line)));
    let said = shown(&command.output().unwrap());
    assert!(said.contains(&format!("ran {}\n", lines.len())), "{shell}: not every line was run\n{said}");
    assert!(!said.contains("CHANGES: ") && !said.contains("HANGS: "), "{shell}:\n{said}");
    said
}

/// K2: what is classified as read-only is, whichever shell runs it.
#[test]
fn k2_read_only_lines_change_nothing() {
    let is_expected = |row: &Row| match &row.expected {
        Expected::ReadOnly => {
            assert!(is_read_only(&row.line), "{}:{} is not read-only", row.file, row.number);
            true
        }
        Expected::Mutating(why) => why.is_empty(),
    };
    let lines: Vec<Vec<u8>> = rows().into_iter().filter(is_expected).map(|row| row.line).collect();
    assert!(lines.len() > 300, "only {} lines", lines.len());
    // All of them once, and a third again as the second user.
    let step = std::cell::Cell::new(1);
    each_user(|desk| {
        desk.prepare(PROJECT);
        let lines: Vec<Vec<u8>> = lines.iter().step_by(step.replace(3)).cloned().collect();
        for shell in ["/bin/bash", "/bin/dash", "/bin/zsh"] {
            // Lines that fail show little.
            let said = change_nothing(&desk, shell, &lines);
            assert!(!said.contains("FAIL MOSTLY: "), "{shell}:\n{said}");
        }
    });
}

/// K2: the test above can fail.
#[test]
fn k2_a_change_would_be_seen() {
    each_user(|desk| {
        desk.prepare(PROJECT);
        for line in ["touch new", "echo x >> a.txt", "chmod 600 x", "touch ~/new", "touch README.md", "> /tmp/x"] {
            let output = desk.run().args(["bash", "-c", DRIVER, "driver", "/bin/bash", line]).output().unwrap();
            assert!(shown(&output).contains("CHANGES: "), "{line} is not seen:\n{}", shown(&output));
        }
    });
}

/// K2: git runs nothing that an agent could have written into the work tree, where it counts as read-only.
#[test]
fn k2_a_planted_repository_runs_nothing() {
    let lines = ["git status", "git diff", "git log -p", "git ls-files -m", "git show HEAD", "git describe --always"];
    let inside = lines.iter().flat_map(|line| [format!("cd bare && {line}"), line.replacen("git", "git -C bare", 1)]);
    let lines: Vec<Vec<u8>> = inside.map(String::into_bytes).collect();
    assert!(lines.iter().all(|line| is_read_only(line)));
    each_user(|desk| {
        desk.prepare(PROJECT);
        desk.prepare(PLANTED);
        // Without the settings it does.
        desk.prepare(
            "cd bare && git status > /dev/null; test -e planted || test -e ../planted; rm -f planted ../planted",
        );
        change_nothing(&desk, "/bin/bash", &lines);
    });
}

fn is_read_only(line: &[u8]) -> bool {
    classify(line, Git::Quiet) == Class::ReadOnly
}
