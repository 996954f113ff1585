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
fn a_payload_has_the_usual_signals() {
    each(|who| {
        // Nothing blocked and nothing ignored: `yes | head` must end by SIGPIPE, and Ctrl-C must act.
        // Only the signals with a name count: a test runner may ignore one that the C library keeps to itself.
        let named = |line: &str| {
            line.split_once('\t')
                .and_then(|(_, bits)| u64::from_str_radix(bits, 16).ok())
                .map(|bits| bits & 0x7fff_ffff)
        };
        let text = output(who.pty_run(&["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]));
        let bits: Vec<Option<u64>> = text.lines().map(named).collect();
        assert_eq!(bits, [Some(0), Some(0)], "{text}");
    });
}
