//! Where there can be no broker, and where there is none any more.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::desk::{each_user, shown};

const LISTENER: &str = include_str!("listener.py");

fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() && !path.is_symlink() { tree(&path) } else { BTreeSet::new() };
    entries.flat_map(|path| below(path.clone()).into_iter().chain([path])).collect()
}

/// K8: where somebody else listens already (EBUSY) the receipt says what is not held, and nothing is written to the work tree in
/// its place.
#[test]
fn k8_another_listener_is_a_shortfall_and_leaves_nothing() {
    each_user(|desk| {
        desk.prepare("git init -q . && mkdir src && echo x > src/a");
        let before = tree(&desk.project(""));
        let mut command = desk.starter("python3");
        command.args(["-I", "-c", LISTENER, desk.world.binary().to_str().unwrap(), "run", "--"]);
        let output = command.args(["sh", "-c", "cat src/a; ls -A > /tmp/seen; cat /tmp/seen"]).output().unwrap();
        let said = shown(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("[protected-later]") && said.contains("another seccomp listener"), "{said}");
        assert_eq!(tree(&desk.project("")), before, "{said}");
        assert!(said.contains("x\n.git\nsrc\n"), "nothing else is seen inside: {said}");
        // Where nobody else listens it is held.
        let held = shown(&desk.inside("true"));
        assert!(!held.contains("[protected-later]"), "{held}");
    });
}

/// K8: when whoever carries out calls is killed, no call is carried out any more: all that runs inside ends with it.
#[test]
fn k8_without_whoever_carries_them_out_no_call_passes() {
    each_user(|desk| {
        let mut command = desk.bare(&[]);
        // Whoever is still there goes on to write, and to try what may not be written.
        let script = "echo 0 > last; echo ready; i=0; while :; do i=$((i+1)); echo $i > last; echo x 2> /dev/null > .envrc; done";
        command.args(["bash", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        // The first process inside is the supervisor's only child.
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let first = children.split_whitespace().next().unwrap().to_owned();
        let killed = Command::new("kill").args(["-KILL", &first]).status().unwrap();
        assert!(killed.success());
        assert!(!child.wait().unwrap().success());
        let last = fs::read_to_string(desk.project("last")).unwrap();
        desk.prepare("for i in $(seq 200); do cat last; done > /dev/null");
        assert_eq!(fs::read_to_string(desk.project("last")).unwrap(), last, "somebody still writes");
        assert!(!desk.project(".envrc").exists());
    });
}
