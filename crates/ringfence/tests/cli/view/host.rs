//! `view = "host"`: everything can be read but what is secret, and nothing written but the roots.

use std::os::unix::net::UnixListener;

use super::{Fence, Who, each, is_root, text};

fn broad(fence: &Fence, more: &str) {
    fence.write(&[
        ("other/readable", "outside\n"),
        ("other/deep/.env", "SECRET\n"),
        ("other/named/key", "SECRET\n"),
        ("home/.ssh/id_ed25519", "SECRET\n"),
        ("home/.bash_history", "SECRET\n"),
        ("home/notes", "notes\n"),
        ("home/work/.env", "SECRET\n"),
        ("home/work/.env.example", "example\n"),
        ("project/.env", "SECRET\n"),
        ("project/src/lib.rs", "code\n"),
        ("project/.git/config", "[core]\n"),
        ("project/.git/hooks/pre-commit.sample", "\n"),
    ]);
    fence.policy(&format!("[files]\nview = \"host\"\n{more}"));
    // A project's file widens only when it is trusted.
    let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
}

/// K6: reads are broad.
#[test]
fn k6_the_host_can_be_read() {
    each(|fence| {
        broad(fence, "");
        for script in [
            "cat $W/other/readable",
            "cat $W/home/notes",
            "ls / | grep -q sys",
            "cat /etc/hostname /etc/passwd > /dev/null",
            "cat /proc/meminfo > /dev/null",
            "test -d /sys/devices",
            "ls /usr/bin > /dev/null",
        ] {
            fence.works(script);
        }
    });
}

/// K6: but not what is secret, not the escape vectors, not the sockets, not other processes.
#[test]
fn k6_what_is_secret_cannot_be_read() {
    each(|fence| {
        broad(fence, "deny = [\"**/.env\", \"../other/named\"]\n");
        for script in [
            "cat $W/home/.ssh/id_ed25519",
            "ls $W/home/.ssh",
            "cat $W/home/.bash_history",
            "cat $W/home/work/.env",
            "cat $W/other/named/key",
            "cat .env",
            "cat /etc/shadow",
            "cat /etc/gshadow",
            "ls /run",
            "ls /run/systemd",
            "ls /var/run/",
            "ls /sys/kernel/debug",
            "ls /sys/kernel/security",
            "cat /proc/keys",
            "cat /proc/kallsyms",
            "cat /proc/sys/kernel/core_pattern",
            "ls $W/home/.local/state/ringfence",
            "ls $W/home/.local/state/ringfence/sessions",
            "ls /dev | grep -v -x -e fd -e full -e null -e ptmx -e pts -e random -e shm -e stderr -e stdin -e stdout -e tty -e urandom -e zero",
            "ls -A /tmp | grep .",
            "ls -A /var/tmp | grep .",
            "ls -A /dev/shm | grep .",
            "test -e /proc/$PPID/root/etc && test $PPID -gt 1",
            "cat /proc/1/environ",
            "ls /proc/1/root/",
        ] {
            fence.fails(script);
        }
        fence.works("cat $W/home/work/.env.example");
    });
}

/// K6: what a pattern at any depth does not reach is said.
#[test]
fn k6_what_is_not_searched_is_said() {
    each(|fence| {
        broad(fence, "deny = [\"**/.env\"]\n");
        let stderr = text(&fence.sh("true").stderr);
        assert!(stderr.contains("not held: deny **/.env [deny]: outside the roots and the homes"), "{stderr}");
        assert!(stderr.contains("not held: deny sockets of the host"), "{stderr}");
        broad(fence, "");
        assert!(!text(&fence.sh("true").stderr).contains("outside the roots and the homes"));
    });
}

/// K5 K6: only the roots can be written, and what is protected in them cannot.
#[test]
fn k5_only_the_roots_can_be_written() {
    each(|fence| {
        broad(fence, "");
        std::fs::set_permissions(fence.path("other"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        for script in [
            "echo x > $W/other/new",
            "echo x >> $W/other/readable",
            "chmod 777 $W/other/readable",
            "touch $W/other/readable",
            "rm $W/other/readable",
            "mkdir /new",
            "echo x > /etc/x",
            "echo x > $W/home/new",
            "mv $W/home/notes $W/home/n",
            "mv $W/project $W/p",
            "echo x > .git/hooks/pre-commit",
            "echo x >> .git/config",
            "mv .git g",
            "echo x >> ringfence.toml",
            "echo x > /proc/sys/kernel/core_pattern",
            "echo x > /sys/kernel/uevent_helper",
            "mkdir /dev/x",
            "touch /run/x",
            "touch $W/home/.local/state/ringfence/x",
        ] {
            fence.fails(script);
        }
        fence.works(
            "echo x > new && mv new src/new && ln src/new hard && rm hard && echo x > \"$HOME/f\" && echo x > /tmp/f",
        );
        assert_eq!(std::fs::read(fence.path("other/readable")).unwrap(), b"outside\n");
        fence.left_nothing();
    });
}

/// K9: a read-only file system does not stop a connection, so the sockets of the host are not there.
#[test]
fn k9_sockets_of_the_host_cannot_be_reached() {
    each(|fence| {
        broad(fence, "");
        let connect =
            |path: &str| format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")'");
        let mut listeners = Vec::new();
        for place in ["other/listening", "home/agent.sock", "project/in.sock"] {
            listeners.push(UnixListener::bind(fence.path(place)).unwrap());
        }
        fence.own();
        for place in ["other/listening", "home/agent.sock", "project/in.sock"] {
            fence.fails(&connect(&format!("$W/{place}")));
        }
        // Those of the session itself work.
        fence.works(
            "python3 -c 'import socket as s; a = s.socket(s.AF_UNIX); a.bind(\"/tmp/x\"); a.listen(); s.socket(s.AF_UNIX).connect(\"/tmp/x\")'",
        );
    });
}

/// A7: nothing of the old root is left under the new one, in either view.
#[test]
fn a7_the_old_root_is_gone() {
    each(|fence| {
        fence.write(&[("other/file", "SECRET\n")]);
        fence.fails("cat /../$W/other/file");
        fence.fails("test \"$(stat -c %d:%i /..)\" != \"$(stat -c %d:%i /)\"");
        // One mount at the root, and nothing that lies over it.
        fence.fails("cut -d' ' -f5 /proc/self/mountinfo | grep -c -x / | grep -v -x 1");
        broad(fence, "");
        fence.fails("cut -d' ' -f5 /proc/self/mountinfo | grep -c -x / | grep -v -x 1");
        fence.fails("touch /../x");
    });
}

/// K7: what the user names is there, in the middle of what is secret, and nothing around it.
#[test]
fn k7_what_is_named_inside_something_secret() {
    each(|fence| {
        broad(fence, "");
        fence.write(&[("home/.ssh/config", "Host x\n")]);
        let run = |script: &str| {
            let mut command = fence.ringfence();
            command.args(["run", "--ref"]).arg(fence.path("home/.ssh/config"));
            command.args(["--", "/bin/sh", "-c", &fence.script(script)]).output().unwrap()
        };
        assert_eq!(text(&run("cat $W/home/.ssh/config").stdout), "Host x\n");
        for script in ["cat $W/home/.ssh/id_ed25519", "ls $W/home/.ssh", "echo x > $W/home/.ssh/config"] {
            let output = run(script);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success() && !shown.contains("SECRET"), "as {:?}: {script}\n{shown}", fence.who);
            assert!(!shown.contains("error: cannot"), "as {:?}: {script}\n{shown}", fence.who);
        }
    });
}

/// A project in a home that only its owner may enter, worked on by somebody else where the owner is root: there is a way to it,
/// and to nothing else in there.
#[test]
fn a_project_in_a_closed_home() {
    let fence = Fence::new(Who::Caller);
    fence.write(&[("home/p/src/lib.rs", "code\n"), ("home/secret", "SECRET\n")]);
    fence.write(&[("home/p/ringfence.toml", "version = 1\n[files]\nview = \"host\"\n")]);
    if is_root() {
        let chown = std::process::Command::new("chown").args(["-R", "0:0"]).arg(fence.path("home")).status();
        assert!(chown.unwrap().success());
    }
    std::fs::set_permissions(fence.path("home"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = fence.ringfence();
        command.current_dir(fence.path("home/p")).args(arguments).output().unwrap()
    };
    assert!(run(&["trust"]).status.success());
    let script = fence.script("cat src/lib.rs && echo x > new && echo x > \"$HOME/f\" && test $(id -u) != 0");
    let output = run(&["run", "--", "/bin/sh", "-c", &script]);
    assert_eq!(text(&output.stdout), "code\n", "{}", text(&output.stderr));
    assert!(output.status.success(), "{}", text(&output.stderr));
    if is_root() {
        let output = run(&["run", "--", "/bin/sh", "-c", &fence.script("cat $W/home/secret; ls $W/home")]);
        assert!(!output.status.success() && !text(&output.stdout).contains("SECRET"), "{}", text(&output.stdout));
    }
}
