//! The walk: whatever a tree looks like, what is denied in it is found or hidden.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{each, is_root, text};

/// Goes down a chain of directories with long names, step by step: no path says where the last one is.
const DEEP: &str = "import os, sys
for _ in range(int(sys.argv[1])):
    name = 'd' * int(sys.argv[2])
    if sys.argv[3] == 'make': os.mkdir(name)
    os.chdir(name)
if sys.argv[3] == 'make': open('.env', 'w').write('SECRET')
else: print(open('.env').read())
";

/// What lies deeper than a path can say cannot be guarded by itself: the last directory that has a path is closed.
#[test]
fn what_is_too_deep_for_a_path_is_hidden() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        fence.write(&[("project/src/lib.rs", "code\n")]);
        let mut make = Command::new("python3");
        make.args(["-c", DEEP, "30", "200", "make"]);
        assert!(fence.by(make).status().unwrap().success());
        let output = fence.run(&["python3", "-c", DEEP, "30", "200", "read"]);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && !shown.contains("SECRET"), "{shown}");
        assert!(shown.contains("Permission denied"), "{shown}");
        assert!(
            shown.contains("ringfence: hidden: ") && shown.contains("a path longer than the kernel takes"),
            "{shown}"
        );
        fence.works("cat src/lib.rs && echo x > src/new");
    });
}

/// A tree as deep as paths go is walked with few descriptors, and guarded at its end.
#[test]
fn depth_costs_no_descriptors() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let mut make = Command::new("python3");
        make.args(["-c", DEEP, "900", "1", "make"]);
        assert!(fence.by(make).status().unwrap().success());
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", "ulimit -n 32; exec \"$@\"", "sh"]).arg(fence.world.binary()).args(["run", "--"]);
        let output = fence.by(limited).args(["python3", "-c", DEEP, "900", "1", "read"]).output().unwrap();
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && shown.contains("Permission denied"), "{shown}");
        assert!(!shown.contains("SECRET") && !shown.contains("hidden"), "{shown}");
    });
}

/// Links are not followed, wherever they lead, and loops end.
#[test]
fn links_lead_the_walk_nowhere() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        fence.write(&[("project/a/.env", "SECRET\n"), ("other/.env", "SECRET\n")]);
        for (target, name) in
            [(".", "here"), ("..", "up"), ("loop", "loop"), ("/", "root"), ("a", "b"), ("../other", "o")]
        {
            symlink(target, fence.path("project").join(name)).unwrap();
        }
        for script in
            ["cat a/.env", "cat b/.env", "cat here/here/a/.env", "cat up/project/a/.env", "cat o/.env", "cat loop"]
        {
            fence.fails(script);
        }
    });
}

/// What is mounted below the project, also the project itself once more, is guarded at each of its places.
#[test]
fn what_is_mounted_twice_is_guarded_twice() {
    if !is_root() {
        // An ordinary user mounts as the root of a user namespace, which is another test.
        return;
    }
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\nprotect = [\"**/frozen\"]\n");
        fence.write(&[
            ("project/a/.env", "SECRET\n"),
            ("project/a/frozen", "old\n"),
            ("project/again/x", ""),
            ("project/new/x", ""),
        ]);
        let script = fence.script(
            "set -e; mount --make-rprivate /; mount --bind $W/project $W/project/again; mount -t tmpfs x $W/project/new; \
             echo SECRET > $W/project/new/.env; chmod 777 $W/project/new; chmod 666 $W/project/new/.env; exec \"$@\"",
        );
        for inner in [
            "cat a/.env",
            "cat again/a/.env",
            "cat new/.env",
            "echo x > again/a/frozen",
            "mv again/a again/b",
            "mv again/a/.env m",
        ] {
            let mut command = Command::new("unshare");
            command.args(["-m", "/bin/sh", "-c", &script, "sh"]);
            if fence.who == super::Who::Nobody {
                command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
            }
            command.arg(fence.world.binary()).args(["run", "--", "/bin/sh", "-c", inner]);
            command.current_dir(fence.path("project")).env("HOME", fence.path("home"));
            let output = command.output().unwrap();
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success() && !shown.contains("SECRET"), "as {:?}: {inner}\n{shown}", fence.who);
            assert!(!shown.contains("error: cannot"), "as {:?}: {inner}\n{shown}", fence.who);
        }
        assert_eq!(fs::read(fence.path("project/a/frozen")).unwrap(), b"old\n");
    });
}

/// A7: rules with wildcards outside the roots are followed from where they begin.
#[test]
fn a7_patterns_outside_the_roots_are_followed() {
    each(|fence| {
        for script in
            ["cat /etc/shadow", "cat /etc/shadow-", "cat /etc/gshadow-", "ls /etc/ssl/private", "cat /proc/kpagecount"]
        {
            fence.fails(script);
        }
        // Closed by a mount, and not only by the mode of the file: then it would be the system's own.
        let mounts = fence.works("cut -d' ' -f5 /proc/self/mountinfo");
        for place in ["/etc/shadow", "/proc/keys", "/proc/kallsyms"] {
            assert!(mounts.lines().any(|line| line == place), "{place}: {mounts}");
        }
    });
}
