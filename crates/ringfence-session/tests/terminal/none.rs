//! No standard descriptor is a terminal: they are handed on as they are, and signals are forwarded.

use std::io::{Read, Write};
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::screen::{Kept, each, noise, piped};

fn code(child: &mut Kept) -> Option<i32> {
    child.0.wait().expect("wait").code()
}

fn output(command: Command) -> String {
    let mut child = piped(command);
    let mut text = String::new();
    child.0.stdout.take().expect("stdout").read_to_string(&mut text).expect("read");
    child.0.wait().expect("wait");
    text
}

/// The blocked and the ignored signals, as a program that prints its status sees them.
fn signals_of(command: Command) -> Vec<(String, u64)> {
    // 32 and 33 belong to the C library, which ignores them or not by the way in which it starts a program.
    let of_library = 0b11 << 31;
    let value = |text: &str| u64::from_str_radix(text.trim(), 16).expect("a set") & !of_library;
    let text = output(command);
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let sets = fields.filter(|(name, _)| matches!(*name, "SigBlk" | "SigIgn"));
    sets.map(|(name, set)| (name.to_owned(), value(set))).collect()
}

#[test]
fn a16_eight_mebibytes_pass_through_intact() {
    each(|who| {
        let bytes = noise(8 << 20);
        let mut child = piped(who.pty_run(&["cat"]));
        let (mut stdin, mut stdout) = (child.0.stdin.take().expect("stdin"), child.0.stdout.take().expect("stdout"));
        let mut arrived = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                stdin.write_all(&bytes).expect("write");
                drop(stdin);
            });
            stdout.read_to_end(&mut arrived).expect("read");
        });
        assert_eq!(code(&mut child), Some(0));
        assert!(arrived == bytes, "{} bytes of {}", arrived.len(), bytes.len());
    });
}

#[test]
fn the_exit_status_is_that_of_the_payload() {
    each(|who| {
        for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
            assert_eq!(code(&mut piped(who.pty_run(&["sh", "-c", script]))), Some(expected));
        }
    });
}

#[test]
fn a16_there_is_no_terminal_and_no_way_to_that_of_the_user() {
    each(|who| {
        let script = "tty; (: < /dev/tty) 2> /dev/null || echo none; ls /proc/self/fd | tr '\\n' ' '";
        assert_eq!(output(who.pty_run(&["sh", "-c", script])), "not a tty\nnone\n0 1 2 3 ");
    });
}

#[test]
fn signals_reach_every_process_of_the_payload() {
    each(|who| {
        for (signal, expected) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
            // The one that says so is the last that is started: a shell that is told between two commands starts the next.
            let script = "ulimit -c 0; (echo ready; exec sleep 1000); :";
            let mut child = piped(who.pty_run(&["sh", "-c", script]));
            let mut stdout = child.0.stdout.take().expect("stdout");
            let mut ready = [0; 6];
            stdout.read_exact(&mut ready).expect("read");
            kill_process(Pid::from_child(&child.0), signal).expect("kill");
            assert_eq!(code(&mut child), Some(expected), "{signal:?}");
            // Every process that held the pipe is gone.
            assert_eq!(stdout.read(&mut ready).expect("read"), 0);
        }
    });
}

#[test]
fn a_payload_has_the_signals_that_the_supervisor_was_given() {
    each(|who| {
        // What the supervisor blocks is not blocked inside: Ctrl-C must act, and `yes | head` must end by SIGPIPE.
        let inside = who.pty_run(&["cat", "/proc/self/status"]);
        let mut outside = Command::new("cat");
        outside.arg("/proc/self/status");
        assert_eq!(signals_of(inside), signals_of(outside));
    });
}
