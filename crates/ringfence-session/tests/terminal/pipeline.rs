//! Only some of stdin, stdout and stderr are terminals: the payload gets its PTY for those, and the one outside is shared.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_sys::pty::{Seat, Seats};
use ringfence_testkit::report_skip;
use rustix::process::Signal;
use rustix::termios::LocalModes;

use crate::screen::{ALL, IDLE, Screen, Who, each, noise, shared_directory, ticks};

const INTO_FILE: Seats = Seats { stdout: Seat::Kept, ..ALL };
const FROM_PIPE: Seats = Seats { stdin: Seat::Kept, ..ALL };

/// `pty_run ARGV > FILE`.
fn into_file(who: Who, argv: &[&str], file: &Path) -> Screen {
    let mut command = who.pty_run(argv);
    command.stdout(File::create(file).expect("a file"));
    Screen::start_with(command, INTO_FILE)
}

/// `... | pty_run ARGV`.
fn from_pipe(mut command: Command) -> Screen {
    command.stdin(Stdio::piped());
    Screen::start_with(command, FROM_PIPE)
}

#[test]
fn a16_what_is_a_terminal_is_replaced_and_what_is_a_file_is_not() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let bytes = noise(1 << 20);
        let input = directory.path().join("noise");
        std::fs::write(&input, &bytes).expect("write");
        let script = "cat \"$1\"; readlink /proc/self/fd/2 >&2; tty >&2";
        let screen = into_file(who, &["sh", "-c", script, "sh", input.to_str().expect("a name")], &file);
        let outer = format!("/dev/pts/{}\r\n", screen.device() & 0xff);
        let ended = screen.end();
        let text = ended.text();
        let (stderr, stdin) = text.split_at(text.len() / 2);
        assert_eq!(stderr, stdin, "{text:?}");
        assert!(stderr.starts_with("/dev/pts/") && stderr != outer, "{text:?}");
        assert!(std::fs::read(&file).expect("the output") == bytes);
    });
}

#[test]
fn a_line_is_echoed_once_and_reaches_the_payload() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let screen = into_file(who, &["sh", "-c", "read x; echo got $x; echo seen $x >&2; exit 5"], &file);
        screen.types("word\n");
        let ended = screen.end();
        assert_eq!((ended.code, ended.text().as_str()), (5, "word\r\nseen word\r\n"));
        assert_eq!(std::fs::read_to_string(&file).expect("the output"), "got word\n");
    });
}

#[test]
fn the_outer_terminal_is_not_touched_unless_the_payload_touches_its_own() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut screen = into_file(who, &["sh", "-c", "echo rea''dy >&2; read x"], &file);
        let found = screen.modes();
        screen.wait_for("ready");
        let now = screen.modes();
        assert_eq!((now.local_modes, now.output_modes), (found.local_modes, found.output_modes));
        screen.types("\n");
        assert_eq!(screen.end().code, 0);
    });
}

#[test]
fn a_password_prompt_turns_the_echo_off_outside() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let script = "stty -echo; echo pass''word: >&2; read x; stty echo; echo $x; echo do''ne >&2; read y";
        let mut screen = into_file(who, &["sh", "-c", script], &file);
        screen.wait_for("password:\r\n");
        screen.wait_until("no echo", |screen| !screen.modes().local_modes.contains(LocalModes::ECHO));
        screen.types("secret\n");
        assert_eq!(screen.wait_for("done"), "done", "the secret is not on the screen");
        screen.wait_until("echo", |screen| screen.modes().local_modes.contains(LocalModes::ECHO));
        screen.types("\n");
        assert_eq!(screen.end().code, 0);
        assert_eq!(std::fs::read_to_string(&file).expect("the output"), "secret\n");
    });
}

#[test]
fn a_payload_that_dies_raw_does_not_leave_the_terminal_raw() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut screen = into_file(who, &["sh", "-c", "stty raw -echo; sleep 1000"], &file);
        screen.wait_until("raw", Screen::is_raw);
        screen.signal(Signal::TERM);
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        screen.wait_until("cooked", |screen| screen.modes().local_modes.contains(cooked));
        assert_eq!(screen.end().code, 143);
    });
}

#[test]
fn resetting_the_terminal_does_not_echo_twice() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut screen = into_file(who, &["sh", "-c", "stty sane; echo rea''dy >&2; read x; read y"], &file);
        screen.wait_for("ready\r\n");
        screen.types("one\n");
        screen.types("two\n");
        let ended = screen.end();
        assert_eq!(ended.text(), "ready\r\none\r\ntwo\r\n");
    });
}

#[test]
fn ctrl_c_reaches_the_payload() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let script = "trap 'echo told; exit 5' INT; echo rea''dy >&2; sleep 1000 & wait";
        let mut screen = into_file(who, &["sh", "-c", script], &file);
        screen.wait_for("ready");
        screen.types("\x03");
        assert_eq!(screen.end().code, 5);
        assert_eq!(std::fs::read_to_string(&file).expect("the output"), "told\n");
    });
}

#[test]
fn ctrl_d_is_an_end_of_file_after_the_lines_before_it() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        // The reader is late, so that the lines and the end of file are typed long before it looks.
        let screen = into_file(who, &["sh", "-c", "sleep 0.5; cat; echo end; cat; echo end"], &file);
        screen.types("one\ntwo\n\x04");
        screen.types("three\n\x04");
        assert_eq!(screen.end().code, 0);
        assert_eq!(std::fs::read_to_string(&file).expect("the output"), "one\ntwo\nend\nthree\nend\n");
    });
}

#[test]
fn job_control_of_an_inner_shell_works_in_a_pipeline() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut screen = into_file(who, &["bash", "--norc", "-i"], &file);
        screen.wait_for("$ ");
        screen.types("sh -c 'echo run$((40+2)) >&2; exec sleep 1000'\n");
        screen.wait_for("run42");
        screen.types("\x1a");
        screen.wait_for("Stopped");
        screen.wait_for("$ ");
        screen.types("exit 3\n");
        screen.wait_for("stopped jobs");
        screen.wait_for("$ ");
        screen.types("exit 3\n");
        assert_eq!(screen.end().code, 3);
    });
}

#[test]
fn a_pager_after_the_payload_gets_its_keys() {
    if !Path::new("/usr/bin/less").exists() {
        return report_skip("the pager: there is no /usr/bin/less");
    }
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        // The payload is still there while the pager reads, and would take the keys if it could.
        outer.types("$PTY_RUN sh -c 'seq 1 500; exec sleep 1000' | less\n");
        outer.wait_for("\r\n20\r\n");
        outer.types(" ");
        outer.wait_for("\r\n40\r\n");
        outer.types("q");
        outer.wait_for("\x1b[?1049l");
        outer.types("\x03");
        outer.wait_for("$ ");
        outer.types("echo shell$((1+1))\n");
        outer.wait_for("shell2");
        outer.types("exit\n");
        outer.end();
    });
}

#[test]
fn a_key_for_another_of_the_pipeline_is_left_to_it() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("go");
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        // The other takes the terminal, but looks late: the supervisor has all the time to be faster.
        let taker = "stty -icanon -echo < /dev/tty; echo ta\"\"ken; until [ -e $1 ]; do sleep 0.05; done";
        let taker = format!("{taker}; echo key=$(dd bs=1 count=1 < /dev/tty 2> /dev/null).; stty sane < /dev/tty");
        outer.types(&format!("$PTY_RUN sleep 1000 | sh -c '{taker}' sh {}\n", file.display()));
        outer.wait_for("taken\r\n");
        outer.types("k");
        outer.idle(Duration::from_millis(500));
        std::fs::write(&file, "").expect("write");
        outer.wait_for("key=k.");
        outer.wait_until("sane", |screen| screen.modes().local_modes.contains(LocalModes::ISIG | LocalModes::ICANON));
        outer.types("\x03");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

#[test]
fn the_modes_of_a_pager_that_was_faster_are_not_those_of_the_payload() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types(&format!(
            "stty -icanon -echo; $PTY_RUN stty -a > {}; stty sane; echo aft$((1+1))\n",
            file.display()
        ));
        outer.wait_for("aft2");
        let modes = std::fs::read_to_string(&file).expect("the output");
        assert!(modes.contains(" icanon ") && modes.contains(" echo "), "{modes}");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

#[test]
fn a_payload_behind_a_pipe_reads_its_pipe_and_may_ask_the_user() {
    each(|who| {
        let script = "cat; read -rsn1 key < /dev/tty; echo key=$key.";
        let mut screen = from_pipe(who.pty_run(&["bash", "-c", script]));
        let mut stdin = screen.stdin();
        stdin.write_all(b"from the pipe\n").expect("write");
        drop(stdin);
        screen.wait_for("from the pipe\r\n");
        screen.wait_until("one key at a time", |screen| !screen.modes().local_modes.contains(LocalModes::ICANON));
        screen.types("k");
        screen.wait_for("key=k.\r\n");
        assert_eq!(screen.end().code, 0);
    });
}

#[test]
fn what_is_typed_to_the_first_of_a_pipeline_is_not_taken_from_it() {
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types("cat | $PTY_RUN sed -u 's/.*/<&>/'\n");
        for word in ["one", "two", "three", "four"] {
            outer.types(&format!("{word}\n"));
            outer.wait_for(&format!("<{word}>"));
        }
        outer.types("\x04");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

#[test]
fn line_ends_are_made_once() {
    each(|who| {
        let screen = from_pipe(who.pty_run(&["printf", "a\\nb\\r\\n50%%\\r100%%\\n"]));
        assert_eq!(screen.end().text(), "a\r\nb\r\r\n50%\r100%\r\n");
    });
}

#[test]
fn only_stderr_is_a_terminal() {
    each(|who| {
        let mut command = who.pty_run(&["sh", "-c", "cat; tty <&2 >&2; exit 2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let seats = Seats { stdin: Seat::Kept, stdout: Seat::Kept, stderr: Seat::Terminal };
        let mut screen = Screen::start_with(command, seats);
        drop(screen.stdin());
        screen.wait_for("/dev/pts/");
        assert_eq!(screen.end().code, 2);
    });
}

#[test]
fn only_stdin_is_a_terminal() {
    each(|who| {
        let mut command = who.pty_run(&["sh", "-c", "echo ask > /dev/tty; read x; [ \"$x\" = word ]"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let seats = Seats { stdin: Seat::Terminal, stdout: Seat::Kept, stderr: Seat::Kept };
        let mut screen = Screen::start_with(command, seats);
        screen.wait_for("ask\r\n");
        screen.types("word\n");
        assert_eq!(screen.end().code, 0);
    });
}

#[test]
fn an_idle_relay_sleeps_in_a_pipeline() {
    each(|who| {
        let directory = shared_directory();
        let file = directory.path().join("out");
        let mut screen = into_file(who, &["sh", "-c", "echo rea''dy >&2; read x"], &file);
        screen.wait_for("ready");
        let before = ticks(screen.pid());
        screen.idle(Duration::from_millis(500));
        assert!(ticks(screen.pid()) - before <= IDLE);
        screen.types("\n");
        assert_eq!(screen.end().code, 0);
    });
}
