//! The session's own directories: there inside, gone afterwards, and never a way to the rest.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{Who, each, text};

/// Whatever the command leaves in its home and its temporary files, nothing of it stays.
#[test]
fn nothing_of_a_session_stays() {
    each(|fence| {
        fence.write(&[("other/file", "kept\n")]);
        for script in [
            "mkdir -p /tmp/a/b/c \"$HOME/d/e\" && touch /tmp/a/b/f && chmod 0 /tmp/a/b/c /tmp/a/b /tmp/a \"$HOME/d/e\" \"$HOME/d\" \"$HOME\"",
            "mkdir /tmp/x && cd /tmp/x && ln -s $W/other l && ln -s / r && ln -s $W/project p && mkfifo f && chmod 0 .",
            "cd /tmp && i=0; while test $i -lt 300; do mkdir ddddddddddddddddddddddddddddddddddddddddd && cd -P ddddddddddddddddddddddddddddddddddddddddd || exit 1; i=$((i + 1)); done",
            "touch \"$HOME/$(printf 'new\\nline \\377')\" && umask 777 && mkdir \"$HOME/m\"",
        ] {
            let output = fence.run(&["/bin/bash", "-c", &fence.script(script)]);
            assert!(output.status.success(), "as {:?}: {script}\n{}", fence.who, text(&output.stderr));
            fence.left_nothing();
        }
        assert_eq!(fs::read(fence.path("other/file")).unwrap(), b"kept\n");
        assert!(fence.path("project").exists());
    });
}

/// A1: what a session gives can be read inside and not changed: the record that decisions are made by, and ringfence itself.
#[test]
fn a1_what_is_given_stays_as_it_is() {
    each(|fence| {
        for backend in ["native", "bwrap", "landlock"] {
            for (script, works) in [
                ("head -c 16 $G/record | grep -q '^ringfence record'", true),
                ("$G/ringfence --version", true),
                ("test -x $G/ringfence && ls $G", true),
                ("echo x > $G/new", false),
                ("mkdir $G/new", false),
                ("echo x >> $G/record", false),
                ("rm -f $G/record", false),
                ("mv $G/record $G/other", false),
                ("ln $G/record $G/other", false),
                ("echo x >> $G/ringfence", false),
                ("rm -f $G/ringfence", false),
                ("ln -sf /bin/true $G/ringfence", false),
                ("mv $G $G.old", false),
                ("rm -rf $G", false),
                ("cd $G/.. && mkdir given2 && mv given2 given", false),
            ] {
                let script = format!("G=$(dirname $HOME)/given; {script}");
                let output =
                    fence.ringfence().args(["run", "--backend", backend, "--", "/bin/sh", "-c", &script]).output();
                let output = output.unwrap();
                let shown = text(&output.stdout) + &text(&output.stderr);
                assert_eq!(output.status.success(), works, "as {:?}, {backend}: {script}\n{shown}", fence.who);
            }
        }
    });
}

/// A1: the home directory as the project: the session's own home is there, ringfence's state is not.
#[test]
fn a1_the_home_directory_as_the_project() {
    each(|fence| {
        fence.write(&[
            ("home/.ssh/id", "SECRET\n"),
            ("home/code.rs", "code\n"),
            ("home/.local/state/ringfence/keys", "SECRET\n"),
        ]);
        let in_home = |script: &str| {
            let mut command = fence.ringfence();
            command.current_dir(fence.path("home")).args(["run", "--", "/bin/sh", "-c", &fence.script(script)]);
            command.output().unwrap()
        };
        let check = |script: &str, works: bool| {
            let output = in_home(script);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.success(), works, "as {:?}: {script}\n{shown}", fence.who);
            assert!(!shown.contains("SECRET"), "as {:?}: {script}\n{shown}", fence.who);
            assert!(!shown.contains("error: cannot"), "as {:?}: {script}\n{shown}", fence.who);
        };
        for script in [
            "echo x > \"$HOME/f\" && cat \"$HOME/f\"",
            "test \"$HOME\" != $W/home && ls -A \"$HOME\"",
            "cat code.rs && echo x > new && mkdir -p .config/x && mv new .config/x/",
            "echo x > /tmp/f",
        ] {
            check(script, true);
        }
        for script in [
            "cat .ssh/id",
            "ls .local/state/ringfence",
            "cat .local/state/ringfence/keys",
            "ls .local/state/ringfence/sessions",
            "ls .local/state/ringfence/sessions/*/",
            "cat \"$HOME/../lock\"",
            "ls \"$HOME/..\"",
            "touch \"$HOME/../x\"",
            "touch .local/state/ringfence/x",
            "chmod 777 .local/state/ringfence",
            "mv .local/state s",
            "mv .local l",
            "rm -rf .local/state/ringfence; test ! -e .local/state/ringfence",
            // Nothing that the view was made of shows.
            "grep -e /root -e /masks /proc/self/mountinfo | grep ringfence",
        ] {
            check(script, false);
        }
        assert!(fence.path("home/.local/state/ringfence/keys").exists());
        fence.left_nothing();
    });
}

/// The same where the state directory is put into the project.
#[test]
fn state_below_a_writable_root_is_not_shown() {
    each(|fence| {
        fence.write(&[("project/.state/ringfence/keys", "SECRET\n"), ("project/.state/other", "other\n")]);
        let run = |script: &str| {
            let mut command = fence.ringfence();
            command.env("XDG_STATE_HOME", fence.path("project/.state"));
            command.args(["run", "--", "/bin/sh", "-c", &fence.script(script)]).output().unwrap()
        };
        for (script, works) in [
            ("echo x > \"$HOME/f\" && case $HOME in $W/project/.state/*) ;; *) exit 1;; esac", true),
            ("cat .state/other && echo x > .state/new", true),
            ("cat .state/ringfence/keys", false),
            ("ls .state/ringfence", false),
            ("ls .state/ringfence/sessions", false),
            ("mv .state s", false),
            ("cat \"$HOME/../lock\"", false),
            ("touch \"$HOME/../x\"", false),
        ] {
            let output = run(script);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.success(), works, "as {:?}: {script}\n{shown}", fence.who);
            assert!(!shown.contains("SECRET") && !shown.contains("error: cannot"), "{script}\n{shown}");
        }
        let left = fs::read_dir(fence.path("project/.state/ringfence/sessions")).unwrap().count();
        assert_eq!(left, 0);
    });
}

/// The caller's own mask for new files is passed on, and does not close the view.
#[test]
fn a_narrow_umask_does_not_close_the_view() {
    each(|fence| {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(fence.world.binary());
        command.args(["run", "--", "/bin/sh", "-c", "umask; ls / /dev > /dev/null && cat /etc/passwd > /dev/null"]);
        let output = fence.by(command).output().unwrap();
        assert_eq!(text(&output.stdout), "0077\n", "as {:?}: {}", fence.who, text(&output.stderr));
        assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
    });
}

/// A session that cannot be removed at once is removed later: here the state directory lost its right to be written.
#[test]
fn leftovers_are_collected_at_the_next_start() {
    each(|fence| {
        fence.works("true");
        let sessions = fence.path("home/.local/state/ringfence/sessions");
        for name in ["left", "left/tmp", "left/tmp/closed", "without-a-lock"] {
            fs::create_dir(sessions.join(name)).unwrap();
        }
        fs::write(sessions.join("left/lock"), "").unwrap();
        fs::write(sessions.join("left/tmp/closed/file"), "").unwrap();
        fs::set_permissions(sessions.join("left/tmp/closed"), Permissions::from_mode(0o000)).unwrap();
        if fence.who == Who::Nobody {
            // Root collects only its own.
            fence.own();
        }
        fence.works("true");
        fence.is_collected();
    });
}
