//! stdin and stdout are terminals: the payload has a PTY with a line discipline of its own, and the one outside is raw.

use std::path::Path;
use std::time::Duration;

use ringfence_testkit::report_skip;
use rustix::process::Signal;
use rustix::termios::LocalModes;

use crate::screen::{IDLE, START, Screen, Who, each, noise, shared_directory, ticks};

const WAITS: &str = "echo rea''dy; exec sleep 1000";

#[track_caller]
fn run(who: Who, argv: &[&str], code: i32, seen: &str) {
    let ended = Screen::start(who.pty_run(argv)).end();
    assert_eq!((ended.code, ended.text().as_str()), (code, seen), "{who:?} {argv:?}");
}

#[test]
fn a16_the_payload_has_a_terminal_of_its_own() {
    each(|who| {
        let screen = Screen::start(who.pty_run(&["sh", "-c", "tty; cut -d' ' -f7 /proc/self/stat"]));
        let outer = screen.device();
        let ended = screen.end();
        let text = ended.text();
        let (name, device) = text.trim_end().split_once("\r\n").expect("two lines");
        assert!(name.starts_with("/dev/pts/"), "{text:?}");
        // The terminal of its session, the one that /dev/tty opens and that TIOCSTI may be used on.
        assert_ne!(device.parse::<u64>().expect("a number"), outer);
        assert_eq!(ended.code, 0);
    });
}

#[test]
fn a16_no_descriptor_of_the_outer_terminal_is_left() {
    each(|who| {
        let list = "for fd in /proc/self/fd/*; do readlink $fd; done; ls /proc/self/fd | tr '\\n' ' '; tty";
        let screen = Screen::start(who.pty_run(&["bash", "-c", list]));
        let ended = screen.end();
        let text = ended.text();
        let lines: Vec<&str> = text.lines().collect();
        let (last, links) = lines.split_last().expect("lines");
        // Descriptor 3 is the directory that `ls` reads.
        let terminal = last.strip_prefix("0 1 2 3 ").unwrap_or_else(|| panic!("other descriptors: {text:?}"));
        assert!(links.iter().filter(|link| link.contains("/pts/")).all(|link| *link == terminal), "{text:?}");
    });
}

#[test]
fn a16_the_size_is_that_of_the_outer_terminal_and_follows_it() {
    each(|who| {
        let script = "stty size; trap 'stty size; exit 0' WINCH; echo rea''dy; sleep 1000 & wait";
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", script]));
        screen.wait_for("24 80\r\n");
        screen.wait_for("ready");
        screen.resize(50, 132);
        screen.wait_for("50 132\r\n");
        assert_eq!(screen.end().code, 0);
    });
}

/// What is said after a program is seen, whatever it did to the screen.
#[test]
fn a16_the_screen_is_plain_again_when_the_payload_has_ended() {
    each(|who| {
        let seen = |script: &str| Screen::start(who.pty_run(&["printf", script])).end().text();
        assert_eq!(seen("plain"), "plain");
        let hidden = seen("\\033[24;24r\\033[8m\\033(0");
        let after = hidden.strip_prefix("\u{1b}[24;24r\u{1b}[8m\u{1b}(0").unwrap_or_else(|| panic!("{hidden:?}"));
        for undone in ["\u{1b}[r", "\u{1b}[0m", "\u{1b}(B", "\u{1b}[?7h"] {
            assert!(after.contains(undone), "{undone:?}: {hidden:?}");
        }
        assert!(seen("\\033[?1049h").ends_with("\u{1b}[4l"));
        assert!(seen("\\033[?1049h").contains("\u{1b}[?1049l"));
    });
}

#[test]
fn the_modes_are_copied_from_the_outer_terminal() {
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types("stty intr ^X -ixon; $PTY_RUN stty -a; stty intr ^C\n");
        outer.wait_for("intr = ^X");
        outer.wait_for("-ixon ");
        outer.wait_for("$ ");
        outer.types("exit\n");
        assert_eq!(outer.end().code, 0);
    });
}

#[test]
fn ctrl_c_and_a_signal_that_stands_for_it_reach_the_foreground_job_only() {
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["bash", "--norc", "-i"]));
        let by_key = |screen: &Screen| screen.types("\x03");
        let by_signal = |screen: &Screen| screen.signal(Signal::INT);
        for interrupt in [&by_key as &dyn Fn(&Screen), &by_signal] {
            screen.wait_for("$ ");
            screen.types("sh -c 'echo run$((40+2)); exec sleep 1000'\n");
            screen.wait_for("run42");
            interrupt(&screen);
            screen.wait_for("$ ");
            screen.types("echo status=$?.\n");
            screen.wait_for("status=130.");
        }
        screen.types("exit 7\n");
        assert_eq!(screen.end().code, 7);
    });
}

#[test]
fn ctrl_c_ends_a_payload_that_is_the_foreground_job() {
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", WAITS]));
        screen.wait_for("ready");
        screen.types("\x03");
        assert_eq!(screen.end().code, 130);
    });
}

#[test]
fn job_control_of_an_inner_shell_works() {
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["bash", "--norc", "-i"]));
        screen.wait_for("$ ");
        screen.types("sh -c 'echo run$((40+2)); exec cat'\n");
        screen.wait_for("run42");
        screen.types("\x1a");
        screen.wait_for("Stopped");
        screen.wait_for("$ ");
        screen.types("jobs | grep -c Stopped | sed s/^/count=/\n");
        screen.wait_for("count=1");
        screen.wait_for("$ ");
        screen.types("fg\n");
        screen.wait_for("exec cat'\r\n");
        // The shell says so before it does so; a line that comes back shows that the job has the terminal.
        screen.types("word\n");
        screen.wait_for("word\r\nword\r\n");
        screen.types("\x03");
        screen.wait_for("$ ");
        screen.types("echo status=$?.\n");
        screen.wait_for("status=130.");
        screen.types("exit 4\n");
        assert_eq!(screen.end().code, 4);
    });
}

#[test]
fn a_python_prompt_works() {
    if !Path::new("/usr/bin/python3").exists() {
        return report_skip("the Python prompt: there is no /usr/bin/python3");
    }
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["/usr/bin/python3", "-q"]));
        screen.wait_for(">>> ");
        screen.types("print(6*7)\n");
        screen.wait_for("42\r\n");
        screen.wait_for(">>> ");
        screen.types("import sys; sys.exit(9)\n");
        assert_eq!(screen.end().code, 9);
    });
}

#[test]
fn ctrl_d_is_an_end_of_file() {
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", "cat; echo aft''er"]));
        screen.types("line\n");
        screen.wait_for("line\r\nline\r\n");
        screen.types("\x04");
        screen.wait_for("after");
        assert_eq!(screen.end().code, 0);
    });
}

#[test]
fn the_exit_status_is_that_of_the_payload() {
    each(|who| {
        run(who, &["true"], 0, "");
        run(who, &["sh", "-c", "exit 7"], 7, "");
        run(who, &["sh", "-c", "kill -KILL $$"], 137, "");
        run(who, &["/nonexistent/program"], 125, "");
    });
}

#[test]
fn the_outer_terminal_is_raw_during_a_run_and_as_before_after_it() {
    each(|who| {
        let mut screen = Screen::start(who.outer_shell());
        screen.wait_for("$ ");
        screen.types("stty -a > /dev/null; a=$(stty -g); echo g$((1+1))\n");
        screen.wait_for("g2");
        screen.types("$PTY_RUN sh -c 'echo rea\"\"dy; read x'\n");
        screen.wait_for("ready");
        assert!(screen.is_raw());
        screen.types("\n");
        screen.wait_for("$ ");
        screen.types("[ $a = $(stty -g) ] && echo same$((1+1))\n");
        screen.wait_for("same2");
        screen.types("exit\n");
        screen.end();
    });
}

#[test]
fn a_signal_to_the_supervisor_goes_to_the_payload_and_the_terminal_is_given_back() {
    each(|who| {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
            let mut screen = Screen::start(who.pty_run(&["sh", "-c", &format!("ulimit -c 0; {WAITS}")]));
            let before = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            screen.wait_for("ready");
            assert!(screen.is_raw());
            screen.signal(signal);
            screen.wait_until("cooked", |screen| screen.modes().local_modes.contains(before));
            assert_eq!(screen.end().code, code, "{signal:?}");
        }
    });
}

#[test]
fn a_payload_may_answer_a_signal_and_say_so() {
    each(|who| {
        let script = "trap 'echo by''e; exit 3' TERM; echo rea''dy; sleep 1000 & wait";
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", script]));
        screen.wait_for("ready");
        screen.signal(Signal::TERM);
        screen.wait_for("bye");
        assert_eq!(screen.end().code, 3);
    });
}

#[test]
fn a_mebibyte_of_text_and_colours_arrives_intact() {
    each(|who| {
        let directory = shared_directory();
        // Characters of one to four bytes and sequences among them, so that every read cuts one somewhere.
        let text = noise(1 << 18).into_iter().map(|byte| match byte {
            0x20..=0x7e => char::from(byte).to_string(),
            0xa0..=0xbf => format!("\x1b[38;5;{byte}m"),
            _ => char::from_u32(0x1_f300 + u32::from(byte)).expect("a character").to_string(),
        });
        let bytes = text.collect::<String>().into_bytes();
        let file = directory.path().join("text");
        std::fs::write(&file, &bytes).expect("write");
        let script = "stty raw -echo; cat \"$1\"";
        let ended = Screen::start(who.pty_run(&["sh", "-c", script, "sh", file.to_str().expect("a name")])).end();
        assert_eq!(ended.code, 0);
        // Colours are undone behind it.
        let (text, after) = ended.seen.split_at(bytes.len().min(ended.seen.len()));
        assert!(text == bytes && after.first() == Some(&0x18), "{} bytes of {}", ended.seen.len(), bytes.len());
    });
}

#[test]
fn long_input_arrives_intact_at_a_slow_reader() {
    each(|who| {
        // In raw mode a full buffer holds the writer back; 64 KiB is sixteen times what the kernel holds.
        let script = "stty raw -echo; echo rea''dy; head -c 65536 | cksum";
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", script]));
        screen.wait_for("ready");
        let text = "0123456789abcde\n".repeat(64);
        for _ in 0..64 {
            screen.types_all(text.as_bytes());
        }
        screen.wait_for("65536");
        assert!(screen.end().text().contains("1691668872 65536"));
    });
}

#[test]
fn no_last_line_is_lost_in_a_hundred_runs() {
    each(|who| {
        for _ in 0..100 {
            run(who, &["sh", "-c", "echo first; echo last"], 0, "first\r\nlast\r\n");
        }
    });
}

#[test]
fn all_output_arrives_when_the_user_looks_late() {
    each(|who| {
        // More than the kernel holds for both terminals, and nothing reads until the supervisor has had time to block.
        let screen = Screen::start(who.pty_run(&["seq", "1", "50000"]));
        let before = ticks(screen.pid());
        std::thread::sleep(Duration::from_secs(1));
        assert!(ticks(screen.pid()) - before < START, "a blocked relay must sleep");
        let expected: String = (1..=50000).map(|number| format!("{number}\r\n")).collect();
        let ended = screen.end();
        assert!(ended.text() == expected, "{} bytes of {}", ended.seen.len(), expected.len());
    });
}

#[test]
fn output_of_a_process_that_outlives_the_payload_does_not_hold_the_end_back() {
    each(|who| {
        let ended = Screen::start(who.pty_run(&["sh", "-c", "trap '' HUP; yes & echo mine; exit 4"])).end();
        assert_eq!(ended.code, 4);
        assert!(ended.text().contains("mine"));
    });
}

#[test]
fn an_idle_relay_sleeps() {
    each(|who| {
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", "echo rea''dy; read x"]));
        screen.wait_for("ready");
        let before = ticks(screen.pid());
        screen.idle(Duration::from_millis(500));
        assert!(ticks(screen.pid()) - before <= IDLE);
        screen.types("\n");
        assert_eq!(screen.end().code, 0);
    });
}

#[test]
fn a_payload_that_closes_its_terminal_and_opens_it_again_is_heard() {
    each(|who| {
        let script = "exec <&- >&- 2>&-; sleep 1.5; echo again > /dev/tty; exit 6";
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", script]));
        screen.idle(Duration::from_secs(1));
        assert!(ticks(screen.pid()) < START, "a relay without a reader must sleep");
        let ended = screen.end();
        assert_eq!((ended.code, ended.text().as_str()), (6, "again\r\n"));
    });
}

#[test]
fn closing_the_window_hangs_up_the_payload() {
    each(|who| {
        // With a session on the terminal the kernel sends HUP to the supervisor; without one, only reading tells.
        for start in [Screen::start, Screen::start_without_session] {
            let directory = shared_directory();
            let file = directory.path().join("told");
            let script = "trap 'echo told > \"$1\"; exit' HUP; echo rea''dy; sleep 1000 & wait";
            let mut screen = start(who.pty_run(&["sh", "-c", script, "sh", file.to_str().expect("a name")]));
            screen.wait_for("ready");
            let mut child = screen.close();
            child.0.wait().expect("wait");
            assert_eq!(std::fs::read_to_string(&file).expect("the payload was told"), "told\n");
        }
    });
}

#[test]
fn a_payload_that_outlives_the_window_does_not_make_the_relay_spin() {
    each(|who| {
        let script = "trap '' HUP; echo rea''dy; sleep 2; yes | head -c 300000; exit 8";
        let mut screen = Screen::start(who.pty_run(&["sh", "-c", script]));
        screen.wait_for("ready");
        let pid = screen.pid();
        let mut child = screen.close();
        std::thread::sleep(Duration::from_secs(1));
        assert!(ticks(pid) < START, "{} ticks", ticks(pid));
        assert_eq!(child.0.wait().expect("wait").code(), Some(8));
    });
}

#[test]
fn a_stopped_supervisor_gives_the_terminal_to_the_shell_and_takes_it_again() {
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types("$PTY_RUN sh -c 'echo p\"\"id=$PPID.; cat'\n");
        outer.wait_for("pid=");
        let number = outer.wait_for(".\r\n");
        let pid =
            number.trim_end_matches(".\r\n").parse().ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        for stop in [Signal::TSTP, Signal::STOP] {
            rustix::process::kill_process(pid, stop).expect("kill");
            outer.wait_for("Stopped");
            outer.wait_for("$ ");
            outer.wait_until("cooked", |screen| screen.modes().local_modes.contains(LocalModes::ICANON));
            outer.types("fg\n");
            outer.wait_for("cat'\r\n");
            outer.wait_until("raw", Screen::is_raw);
        }
        outer.types("inner\n");
        outer.wait_for("inner\r\ninner\r\n");
        outer.types("\x04");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

/// A shell that edits its line has no use for lines and echo, and that is what the terminal is like when it starts a job in the
/// background.
#[test]
fn a_run_in_the_background_does_not_get_the_modes_of_the_line_that_is_edited() {
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types("stty -icanon -echo -icrnl\n");
        outer.wait_for("$ ");
        outer.types("$PTY_RUN sh -c 'echo in$((1+1)); read x; echo got=$x.' &\n");
        outer.wait_for("in2");
        outer.types("stty sane\n");
        outer.wait_for("$ ");
        outer.types("fg\n");
        outer.wait_until("raw", Screen::is_raw);
        outer.types("word\r");
        outer.wait_for("word\r\n");
        outer.wait_for("got=word.");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

#[test]
fn a_run_in_the_background_leaves_the_terminal_to_the_shell() {
    each(|who| {
        let mut outer = Screen::start(who.outer_shell());
        outer.wait_for("$ ");
        outer.types("$PTY_RUN sh -c 'echo in$((1+1)); read x; echo got=$x.' &\n");
        outer.wait_for("in2");
        outer.types("echo shell$((1+1))\n");
        outer.wait_for("shell2");
        assert!(outer.modes().local_modes.contains(LocalModes::ICANON));
        outer.types("fg\n");
        outer.wait_until("raw", Screen::is_raw);
        outer.types("word\n");
        outer.wait_for("got=word.");
        outer.wait_for("$ ");
        outer.types("exit\n");
        outer.end();
    });
}

/// A14: orders to the terminal do not reach it, and modes that the payload leaves set are reset.
#[test]
fn a14_the_terminal_obeys_a_closed_list_and_is_put_back() {
    each(|who| {
        let printed = "\\033[?1000h\\033[?2004h\\033]52;c;eA==\\007\\033[21t\\005\\033P$qm\\033\\\\x";
        let ended = Screen::start(who.pty_run(&["printf", printed])).end();
        let text = ended.text();
        assert!(text.starts_with("\x1b[?1000h\x1b[?2004hx"), "{text:?}");
        assert!(text.ends_with("\x1b[?1000l\x1b[?2004l"), "{text:?}");
    });
}

/// A14: a terminal that answers when the payload has ended does not type the answer to the user's shell.
#[test]
fn a14_late_answers_are_not_typed_to_the_shell() {
    each(|who| {
        let mut screen = Screen::start(who.outer_shell());
        screen.wait_for("$ ");
        screen.types("$PTY_RUN printf '\\033[6n'; cat -v\n");
        screen.wait_for("\x1b[6n");
        // The last question is ours, and is asked when all of the payload's output is there.
        screen.wait_for("\x1b[c");
        screen.types("\x1b[5;5R\x1b[?62;4c");
        screen.wait_until("the shell has its terminal back", |screen| !screen.is_raw());
        screen.types("typed\n");
        let seen = screen.wait_for("typed\r\ntyped\r\n");
        assert!(!seen.contains("5;5R") && !seen.contains("62;4c"), "{seen:?}");
    });
}

/// A14: who has asked nothing is not waited for.
#[test]
fn a14_nothing_is_asked_where_the_payload_has_asked_nothing() {
    each(|who| {
        let ended = Screen::start(who.pty_run(&["printf", "\\033[1mx"])).end();
        assert!(!ended.text().contains("\x1b[c"), "{:?}", ended.text());
    });
}
