//! What surrounds every program: who and where it is, its variables and limits, how it ends.

use std::io::Read as _;
use std::os::unix::fs::lchown;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::desk::{Desk, each, shown};
use crate::table::{ELSEWHERE, PLAIN, SURROUNDINGS, VARIABLE};

/// A4: the environment is what programs need, and no more.
#[test]
fn a4_programs_find_what_surrounds_them() {
    each(&SURROUNDINGS, |desk| {
        desk.write_home("bin/mine", "#!/bin/sh\necho mine\n");
        desk.write("tools/own", "#!/bin/sh\necho own\n");
        desk.prepare("chmod +x tools/own");
        let (tools, link) = (desk.project("tools"), desk.home("link"));
        std::os::unix::fs::symlink(&tools, &link).unwrap();
        let desk = desk
            .searching(&link)
            .with("COLORTERM", "truecolor")
            .with("LS_COLORS", "di=1")
            .with("TZ", "Europe/Berlin")
            .with("LC_TIME", "C")
            .with("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
            .with("EDITOR", "vi")
            .with("SSH_AUTH_SOCK", "/tmp/agent")
            .with("MY_API_KEY", "SECRET")
            .with("LC_X", "http://ada:SECRET@example.com")
            .with("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem");
        desk.works(&[
            (
                "a program knows who runs it",
                "test \"$(id -un)\" = \"$(whoami)\" && getent passwd \"$(id -u)\" > /dev/null && \
                 python3 -c 'import os, pwd; pwd.getpwuid(os.getuid())'",
            ),
            ("the user's name is that of whoever works", "test -z \"${USER-}\" || test \"$USER\" = \"$(id -un)\""),
            ("nobody is root", "test \"$(id -u)\" != 0"),
            ("the working directory is the project", "test -e tools/own && test \"$PWD\" = \"$(realpath .)\""),
            (
                "home and temporary files are there and writable",
                "touch \"$HOME/x\" /tmp/x \"$TMPDIR/x\" && cd && test \"$PWD\" = \"$HOME\" && cd ~",
            ),
            ("temporary files are where they usually are", "touch /var/tmp/x && test \"$TMPDIR\" = /tmp"),
            ("the shell of the user is named", "test \"$SHELL\" = /bin/bash && \"$SHELL\" -c true"),
            ("a directory of the project stays on PATH, also by a link", "test \"$(own)\" = own"),
            (
                "programs of the system are found as usual",
                "command -v ls cat env sh bash git python3 > /dev/null && /bin/sh -c true && /usr/bin/env true",
            ),
            (
                "the terminal and its colours are known",
                "test \"$TERM\" = xterm && test \"$COLORTERM\" = truecolor && test \"$LS_COLORS\" = di=1 && \
                 test \"$(tput colors)\" = 8",
            ),
            (
                "the language is the user's",
                "test \"$LANG\" = C.UTF-8 && test \"$LC_TIME\" = C && test \"$(locale charmap)\" = UTF-8 && \
                 printf 'ü' | wc -m | grep -qx 1",
            ),
            ("the time zone is the user's", "test \"$(date +%Z -d 2024-07-01)\" = CEST"),
            ("certificates are found", "test \"$SSL_CERT_FILE\" = /etc/ssl/certs/ca-certificates.crt"),
            ("what is not there is not named", "test -z \"${REQUESTS_CA_BUNDLE-}\""),
            (
                "secrets, agents and the user's editor stay outside",
                "test -z \"${MY_API_KEY-}${SSH_AUTH_SOCK-}${EDITOR-}\" && ! env | grep SECRET",
            ),
            (
                "hosts and services are known",
                "getent hosts localhost > /dev/null && getent services https > /dev/null && hostname > /dev/null",
            ),
            (
                "devices are there",
                "head -c 8 /dev/urandom | wc -c | grep -qx 8 && echo x > /dev/null && head -c 3 /dev/zero | \
                 wc -c | grep -qx 3 && ! echo x > /dev/full 2> /dev/null",
            ),
            ("what is open has a name", "test -e /dev/fd/0 && cat /dev/stdin < tools/own > /dev/stdout"),
            ("the machine has a name and processors", "nproc > /dev/null && uname -a > /dev/null"),
            (
                "the machine is described",
                "cat /proc/cpuinfo /proc/meminfo > /dev/null && df . > /dev/null && uptime > /dev/null",
            ),
            ("many files may be open", "test \"$(ulimit -n)\" -ge 256 && ulimit -c > /dev/null"),
        ]);
    });
}

/// A4: what the user names passes as it is.
#[test]
fn a4_a_variable_that_is_named_passes() {
    each(&VARIABLE, |desk| {
        let desk = desk.with("DATA", "/nowhere/data").with("OTHER", "x");
        let mut command = desk.bare(&["--env", "DATA"]);
        command.args(["sh", "-c", "echo \"$DATA${OTHER-}\""]);
        let output = command.output().unwrap();
        assert_eq!(output.stdout, b"/nowhere/data\n", "{}", shown(&output));
    });
}

/// The user keeps caches and state on another disk, by links.
pub(crate) fn on_another_disk(desk: Desk) -> Desk {
    desk.prepare(
        "cd && mkdir disk disk/cache disk/state .local && ln -s disk/cache .cache && ln -s ../disk/state .local/state",
    );
    desk
}

/// There everything is found.
#[test]
fn caches_and_state_may_be_elsewhere() {
    each(&ELSEWHERE, |desk| {
        desk.write("Cargo.toml", "");
        // Root in somebody's home follows no link of theirs.
        if desk.is_roots() {
            let refused = shown(&desk.inside("true"));
            assert!(refused.contains("root follows only its own: name the place itself"), "{refused}");
            [".cache", ".local/state"].iter().for_each(|link| lchown(desk.home(link), Some(0), Some(0)).unwrap());
        }
        desk.works(&[
            ("the home is there", "touch \"$HOME/x\" && cd && git config user.name | grep -q Ada"),
            ("a cache is there", "touch \"$CARGO_HOME/x\""),
        ]);
    });
}

/// Files are made with the mode that the caller's mask says.
#[test]
fn the_mask_of_new_files_is_the_callers() {
    each(&PLAIN, |desk| {
        let script = format!("umask 027 && exec {} sh -c 'umask && mkdir d && touch f'", desk.line());
        let output = desk.starter("/bin/sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success() && output.stdout == b"0027\n", "{}", shown(&output));
        let mode = |path: &str| {
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(desk.project(path)).unwrap().permissions())
        };
        assert_eq!((mode("d") & 0o777, mode("f") & 0o777), (0o750, 0o640));
    });
}

/// A limit of the caller holds inside.
#[test]
fn limits_are_the_callers() {
    each(&PLAIN, |desk| {
        let script = format!("ulimit -S -n 333 && exec {} sh -c 'ulimit -n'", desk.line());
        let output = desk.starter("/bin/sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.stdout, b"333\n", "{}", shown(&output));
    });
}

/// Input comes in, output and its order go out, codes and signals are told.
#[test]
fn streams_codes_and_signals_pass() {
    each(&PLAIN, |desk| {
        for (script, code) in
            [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("nosuch", 127)]
        {
            let output = desk.run().args(["sh", "-c", script]).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{script}: {}", shown(&output));
        }
        // A reader that stops early ends the writer.
        let output = desk
            .starter("/bin/bash")
            .args(["-c", &format!("{} yes 2> /dev/null | head -1", desk.line())])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"y\n");
        // A signal from outside arrives, and what is done about it counts.
        let mut command = desk.bare(&[]);
        command.args(["bash", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 3]).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "bye\n");
    });
}

/// A session leaves nothing behind: not in the project, not in the home.
#[test]
fn nothing_is_left_behind() {
    each(&PLAIN, |desk| {
        desk.write("file", "x");
        desk.works(&[("something is written everywhere", "touch \"$HOME/a\" /tmp/b && mkdir -p \"$HOME/.config/c\"")]);
        let names = |path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(desk.project("")), 1);
        assert_eq!(names(desk.home(".local/state/ringfence/sessions")), 0);
    });
}
