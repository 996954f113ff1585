//! What a session inherits from its caller (signals, limits, umask), and processes that are stopped or killed from outside.

use std::fs;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::live::{Shell, ringfence, until};
use super::{Fence, Who, each, text};

/// `ringfence run` behind `env` with these options of its own, and within a time that no session takes.
fn behind_env(fence: &Fence, options: &[&str], arguments: &[&str]) -> Output {
    let mut command = fence.by(Command::new("timeout"));
    command.args(["--signal=KILL", "100", "env"]).args(options).arg(fence.binary()).args(arguments);
    command.output().unwrap()
}

/// The signals that a command blocks and ignores, by its `/proc/self/status`. The C library keeps 32 and 33 to itself, and lets
/// nobody set what a caller has made of them.
fn blocked_and_ignored(output: &Output) -> Vec<u64> {
    let of = |line: &str| u64::from_str_radix(line.split_whitespace().last()?, 16).ok();
    text(&output.stdout).lines().filter_map(of).map(|set| set & !(0b11 << 31)).collect()
}

#[test]
fn h1_a_session_ends_where_its_caller_ignores_or_blocks_sigchld() {
    each(|fence| {
        for option in ["--ignore-signal=CHLD", "--block-signal=CHLD", "--ignore-signal", "--block-signal"] {
            let output = behind_env(fence, &[option], &["run", "--", "/bin/sh", "-c", "exit 7"]);
            assert_eq!(output.status.code(), Some(7), "as {:?}: {option}: {}", fence.who, text(&output.stderr));
        }
        fence.left_nothing();
    });
}

#[test]
fn h1_a_call_into_a_session_ends_where_its_caller_ignores_sigchld() {
    each(|fence| {
        let shell = Shell::start(fence, &[]);
        let call = ["exec", "--within", &shell.id, "--", "/bin/sh", "-c", "exit 7"];
        let output = behind_env(fence, &["--ignore-signal=CHLD"], &call);
        assert_eq!(output.status.code(), Some(7), "as {:?}: {}", fence.who, text(&output.stderr));
        shell.ends();
    });
}

/// `nohup` and `&` of a shell without job control mean the command; everything else is the command's own again.
#[test]
fn h1_a_command_inherits_only_ignored_hup_int_and_quit() {
    each(|fence| {
        for (options, expected) in [
            (&[][..], [0, 0]),
            (&["--ignore-signal"], [0, 0b111]),
            (&["--block-signal", "--ignore-signal=HUP"], [0, 1]),
            (&["--ignore-signal=PIPE,CHLD,TERM,XFSZ"], [0, 0]),
        ] {
            let output = behind_env(fence, options, &["run", "--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
            assert_eq!(
                blocked_and_ignored(&output),
                expected,
                "as {:?}: {options:?}: {}",
                fence.who,
                text(&output.stderr)
            );
        }
    });
}

/// With `nohup`, SIGHUP ends neither the supervisor nor the command. Without, it is passed on.
#[test]
fn h1_a_session_outlives_sighup_exactly_with_nohup() {
    each(|fence| {
        for (options, outlives) in [(&["--ignore-signal=HUP"][..], true), (&[], false)] {
            let mut command = fence.by(Command::new("env"));
            command.args(options).arg(fence.binary()).args([
                "run",
                "--",
                "/bin/sh",
                "-c",
                "echo there; read line; exit 7",
            ]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut said = [0; 6];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
            kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
            // Until it has ended, its input stays open: without SIGHUP it would wait for ever.
            let mut input = child.stdin.take().unwrap();
            if outlives {
                std::io::Write::write_all(&mut input, b"go on\n").unwrap();
            }
            let code = child.wait().unwrap().code();
            assert_eq!(code, Some(if outlives { 7 } else { 129 }), "as {:?}: {options:?}", fence.who);
        }
    });
}

/// The first process of the session, as the host sees it.
fn first_process(shell: &Shell<'_>) -> Pid {
    let supervisor = shell.child.id();
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
}

#[test]
fn h3_stop_ends_a_session_whose_first_process_is_stopped() {
    each(|fence| {
        for backend in ["native", "landlock"] {
            let mut shell = Shell::start(fence, &["--backend", backend]);
            let first = first_process(&shell);
            kill_process(first, Signal::STOP).unwrap();
            let state = || fs::read_to_string(format!("/proc/{}/stat", first.as_raw_pid())).unwrap();
            until("it is stopped", || state().contains(") T "));
            let output = ringfence(fence, &["stop", &shell.id, "--json"]);
            assert_eq!(output.status.code(), Some(0), "as {:?}: {backend}: {}", fence.who, text(&output.stderr));
            assert!(text(&output.stdout).contains("\"ended\": true"), "{}", text(&output.stdout));
            assert_eq!(shell.child.wait().unwrap().code(), Some(137), "as {:?}: {backend}", fence.who);
        }
    });
}

/// `ringfence run` behind a shell that sets this first.
fn behind_shell(fence: &Fence, first: &str, arguments: &[&str]) -> Output {
    let mut command = fence.by(Command::new("timeout"));
    let script = format!("{first}; exec \"$@\"");
    command.args(["--signal=KILL", "100", "/bin/sh", "-c", &script, "sh"]).arg(fence.binary()).args(arguments);
    command.output().unwrap()
}

/// Nobody but the owner writes any file of a session, whatever the caller's umask; the command has the caller's.
#[test]
fn g7_session_files_have_their_modes_whatever_the_umask() {
    each(|fence| {
        for (mask, made) in [("0000", "666"), ("0022", "644"), ("0077", "600"), ("0777", "0")] {
            let script = "umask; touch made; stat -c %a made; rm -f made; cd \"$(dirname \"$HOME\")\"; find . -perm /022 ! -type l ! -path ./tmp/\\* | sort";
            let run = ["run", "--ask=5s", "--agent", "claude", "--", "/bin/sh", "-c", script];
            let output = behind_shell(fence, &format!("umask {mask}"), &run);
            assert_eq!(output.status.code(), Some(0), "as {:?}: {mask}: {}", fence.who, text(&output.stderr));
            assert_eq!(text(&output.stdout), format!("{mask}\n{made}\n"), "as {:?}: {mask}", fence.who);
            fence.left_nothing();
        }
    });
}

#[test]
fn h4_a_file_size_limit_is_an_error_and_no_silent_end() {
    each(|fence| {
        let output = behind_shell(fence, "ulimit -f 0", &["run", "--", "true"]);
        assert_eq!(output.status.code(), Some(125), "as {:?}: {}", fence.who, text(&output.stderr));
        assert!(text(&output.stderr).contains("File too large"), "as {:?}: {}", fence.who, text(&output.stderr));
        fence.left_nothing();
        // What is inside meets the limit as it would outside.
        let output =
            behind_shell(fence, "ulimit -f 4000", &["run", "--", "/bin/sh", "-c", "head -c 4000000 /dev/zero > big"]);
        assert_ne!(output.status.code(), Some(125), "as {:?}: {}", fence.who, text(&output.stderr));
        let script = "(head -c 4000000 /dev/zero > big); echo $?; rm big";
        let output = behind_shell(fence, "ulimit -f 4000", &["run", "--", "/bin/sh", "-c", script]);
        assert_eq!(text(&output.stdout), "153\n", "as {:?}: {}", fence.who, text(&output.stderr));
    });
}

#[test]
fn h2_one_failed_read_of_the_head_refuses_the_start_and_is_forgotten() {
    each(|fence| {
        assert!(fence.sh("true").status.success());
        let head = fence.path("home/.local/state/ringfence/audit/head");
        let mut command = fence.by(Command::new("strace"));
        command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(&head);
        command.args(["-e", "trace=read", "-e", "inject=read:error=EIO:when=1"]);
        let output = command.arg(fence.binary()).args(["run", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "as {:?}: {}", fence.who, text(&output.stderr));
        assert!(text(&output.stderr).contains("Input/output error"), "as {:?}: {}", fence.who, text(&output.stderr));
        let verified = ringfence(fence, &["audit", "verify"]);
        assert!(verified.status.success(), "as {:?}: {}", fence.who, text(&verified.stdout));
        assert!(fence.sh("true").status.success());
        let verified = ringfence(fence, &["audit", "verify"]);
        assert!(verified.status.success(), "as {:?}: {}", fence.who, text(&verified.stdout));
    });
}

/// A program that fills the disk of the state, by its own home or by a place that it may write, leaves its end, its denials and
/// its row. The file system is a small one of its own.
#[test]
fn g2_a_full_disk_erases_no_evidence() {
    each(|fence| {
        let project = fence.path("project").display().to_string();
        let other = fence.path("other").display().to_string();
        let policy =
            format!("version = 1\n[files]\nwrite = [\"{project}\", \"{other}\"]\nprotect = [\"{project}/kept*\"]\n");
        fence.write(&[("home/.config/ringfence/config.toml", &policy)]);
        let owner = if fence.who == Who::Nobody { ",uid=65534,gid=65534" } else { "" };
        let disk = format!(
            "mkdir -p $W/home/.local/state $W/other $W/run; mount -t tmpfs -o size=3m{owner} none $W/run; \
             mkdir -m 777 $W/run/s $W/run/o; mount --bind $W/run/s $W/home/.local/state; mount --bind $W/run/o $W/other"
        );
        for place in ["$HOME/fill", "../other/fill"] {
            let inside = format!(
                "head -c 20m /dev/zero > {place}; head -c 20m /dev/zero > {place}2; \
                 for n in $(seq 45); do echo x > kept$n; done 2>/dev/null; exit 0"
            );
            let script = "umask 077; \"$0\" run -- /bin/sh -c \"$1\" 2>&1; echo code=$?; \"$0\" ps --all; \"$0\" audit; \
                          \"$0\" audit verify";
            let output = fence.after_mounting(&disk, &["/bin/sh", "-c", script, fence.binary(), &inside]);
            let said = text(&output.stdout);
            assert!(output.status.success(), "as {:?}: {place}: {said}{}", fence.who, text(&output.stderr));
            assert!(said.contains("code=0"), "as {:?}: {place}: {said}", fence.who);
            let row = said.lines().find(|line| line.contains(" exit 0 ") && line.contains(&project));
            let id = row.and_then(|row| row.split_whitespace().next()).unwrap_or_else(|| panic!("{place}: {said}"));
            assert!(said.contains(&format!("{id} end with code 0")), "as {:?}: {place}: {said}", fence.who);
            let is_there = |n: &u32| said.contains(&format!("{id} stopped write {project}/kept{n} "));
            let denials = (1..=45).filter(is_there).count();
            assert_eq!(denials, 45, "as {:?}: {place}: {said}", fence.who);
        }
    });
}

/// Where nothing can be written any more, the run is no success, and neither is its row.
#[test]
fn g2_a_run_whose_end_cannot_be_written_is_no_success() {
    each(|fence| {
        let mut shell = Shell::start(fence, &[]);
        let state = fence.path("home/.local/state/ringfence");
        fs::rename(state.join("audit"), state.join("elsewhere")).unwrap();
        fs::write(state.join("audit"), "").unwrap();
        drop(shell.stdin.take());
        assert_eq!(shell.child.wait().unwrap().code(), Some(125), "as {:?}", fence.who);
        fs::remove_file(state.join("audit")).unwrap();
        fs::rename(state.join("elsewhere"), state.join("audit")).unwrap();
        let rows = text(&ringfence(fence, &["ps", "--all"]).stdout);
        assert!(rows.contains(&format!("{}  exit 125", shell.id)), "as {:?}: {rows}", fence.who);
        assert!(shell.errors().contains("the end of the session could not be written down"));
    });
}

/// Before anything is changed: half an applied review on a full disk is of no use.
#[test]
fn g3_apply_refuses_what_exceeds_the_free_space() {
    each(|fence| {
        let owner = if fence.who == Who::Nobody { ",uid=65534,gid=65534" } else { "" };
        let disk = format!("mount -t tmpfs -o size=8m{owner} none $W/project; cd $W/project");
        let script = "umask 077; \"$0\" run --review -- /bin/sh -c 'head -c 20m /dev/zero > big; echo x > small'; \
                      \"$0\" apply; echo code=$?; ls; \"$0\" apply $(ls $HOME/.local/state/ringfence/reviews) small; echo code=$?; ls";
        let output = fence.after_mounting(&disk, &["/bin/sh", "-c", script, fence.binary()]);
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(said, "code=125\ncode=0\nsmall\n", "as {:?}: {said}{errors}", fence.who);
        assert!(errors.contains(" free, and the changes need 20.0 MiB"), "as {:?}: {errors}", fence.who);
    });
}
