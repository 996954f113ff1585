//! Editors, and programs that a person sits in front of.

use std::fs;

use crate::desk::{Desk, each, each_user};
use crate::screen::Screen;
use crate::table::{EDITING, JOBS, PROMPT, SWAP};

fn on_screen(desk: &Desk, argv: &[&str]) -> Screen {
    let mut command = desk.bare(&[]);
    command.args(argv);
    Screen::start(command)
}

#[test]
fn an_editor_writes_with_its_swap_file_and_backup() {
    each(&SWAP, |desk| {
        desk.write("a.txt", "one\n");
        desk.write("b.txt", "one\n");
        desk.works(&[
            (
                "it starts as people start it, without a complaint",
                "echo 'int x;' > a.c && timeout 60 vim --not-a-term -T xterm -c q a.c > said 2>&1 && \
                 grep -q 'a.c' said && ! grep -E 'E[0-9]+:' said",
            ),
            ("a file is changed and saved", "vim -Nu NONE -es -c '%s/one/two/' -c wq a.txt && grep -qx two a.txt"),
            (
                "the old one is kept as a backup",
                "vim -Nu NONE -es -c 'set backup' -c '%s/one/two/' -c wq b.txt && grep -qx two b.txt && \
                 grep -qx one b.txt~",
            ),
            (
                "a swap file is made beside it and goes away",
                "vim -Nu NONE -es -c 'set swapfile' -c 'call writefile([swapname(\"%\")], \"swap\")' -c 'normal \
                 ox' -c wq a.txt && \
                 grep -q '.a.txt.sw' swap && test ! -e .a.txt.swp",
            ),
        ]);
    });
}

/// A16: a screen-oriented program has a real terminal.
#[test]
fn a16_a_person_edits_a_file_in_vim() {
    each(&EDITING, |desk| {
        desk.write("note.txt", "first\n");
        let mut screen = on_screen(&desk, &["vim", "-Nu", "NONE", "note.txt"]);
        screen.wait_for("first");
        screen.answers("osecond\u{1b}", "second");
        screen.types(":wq\r");
        assert_eq!(screen.end(), Some(0));
        assert_eq!(fs::read_to_string(desk.project("note.txt")).unwrap(), "first\nsecond\n");
    });
}

/// A16: jobs are stopped and continued, and keys reach the right one.
#[test]
fn a16_a_person_uses_job_control_in_bash() {
    each(&JOBS, |desk| {
        let mut screen = on_screen(&desk, &["bash", "--norc", "--noprofile", "-i"]);
        // What is waited for is written with quotes inside where it is typed, so that its echo is not taken for it.
        screen.answers("PS1='pro''mpt> '\r", "prompt> ");
        // No `sh`: dash starts programs by vfork, and a key that stops them in that moment leaves it waiting. Few sleeps: bash does not
        // end by a key that comes in the moment in which one has ended and it does not know that yet.
        screen.answers("bash -c 'trap \"echo con\"tinued CONT; echo up; while :; do sleep 1; done'\r", "up\r\n");
        screen.answers("\u{1a}", "Stopped");
        for (keys, text) in [
            ("\r", "prompt> "),
            ("jobs | sed s/Stopped/is-''stopped/\r", "is-stopped"),
            ("fg\r", "continued"),
            ("\u{3}", "prompt> "),
            ("echo code-$?\r", "code-130"),
            ("sleep 1000 & jobs | sed s/Running/is-''running/\r", "is-running"),
            ("kill %1; wait %1; echo code-$?\r", "code-143"),
            ("stty size\r", "24 80"),
        ] {
            screen.answers(keys, text);
        }
        screen.types("exit 5\r");
        assert_eq!(screen.end(), Some(5));
    });
}

/// A16: prompts and pagers have a real terminal.
#[test]
fn a16_a_person_uses_the_python_prompt_and_a_pager() {
    each(&PROMPT, |desk| {
        desk.prepare("seq 500 > lines");
        let mut screen = on_screen(&desk, &["python3", "-q"]);
        screen.wait_for(">>> ");
        screen.answers("print('a' + 'b')\r", "ab\r\n");
        screen.answers("import os, time; os.isatty(0), open('/dev/tty').isatty()\r", "(True, True)");
        // Many short sleeps: Python does not notice a key in the moment before a sleep begins until it ends.
        screen.answers("print('sl' + 'eeps'); [time.sleep(0.01) for _ in range(100000)]\r", "sleeps");
        screen.answers("\u{3}", "KeyboardInterrupt");
        screen.types("exit(3)\r");
        assert_eq!(screen.end(), Some(3));
        let mut screen = on_screen(&desk, &["less", "lines"]);
        screen.wait_for("lines");
        screen.answers("G", "500");
        screen.types("q");
        assert_eq!(screen.end(), Some(0));
    });
}

/// What puts itself aside, with something beside it that counts.
const ASIDE: &str = "(while :; do echo >> ticks; sleep 0.05; done) & echo be''gins; kill -STOP $$; echo goes-''on";

/// A16: Ctrl-Z puts a session aside as it does with any program, with everything in it, and the shell's `fg` brings it back.
#[test]
fn a16_a_session_is_put_aside_and_brought_back() {
    each_user(|desk| {
        desk.write("note.txt", "first\n");
        desk.hand_over();
        let run = desk.bare(&[]);
        let words = std::iter::once(run.get_program()).chain(run.get_args());
        let run: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let mut shell = desk.starter("/bin/bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "prompt> ").env("TERM", "xterm");
        let mut screen = Screen::start(shell);
        screen.wait_for("prompt> ");
        // In a script, which is put aside with it.
        let script = "'\"$@\"; exit $?'";
        screen.answers(&format!("run() {{ sh -c {script} sh {} \"$@\"; }}\r", run.join(" ")), "prompt> ");
        screen.answers("run vim -Nu NONE note.txt\r", "first");
        screen.answers("\u{1a}", "Stopped");
        screen.answers("fg\r", "first");
        screen.answers("osecond\u{1b}", "second");
        screen.answers(":wq\r", "prompt> ");
        screen.answers("echo code-$?\r", "code-0");
        screen.answers(&format!("run bash -c '{}'\r", ASIDE.replace('\'', "'\\''")), "begins");
        screen.wait_for("Stopped");
        let counts = "sleep 0.5; a=$(wc -l < ticks); sleep 0.5; test $a = $(wc -l < ticks) && echo sa''me\r";
        screen.answers(counts, "same");
        screen.answers("fg\r", "goes-on");
        // What is typed before the shell reads again is gone.
        screen.wait_for("prompt> ");
        screen.answers("exit\r", "exit");
        screen.end();
        assert_eq!(fs::read_to_string(desk.project("note.txt")).unwrap(), "first\nsecond\n");
    });
}

/// A16: where no shell would bring it back, it goes on.
#[test]
fn a16_without_a_shell_nothing_is_put_aside() {
    each_user(|desk| {
        for signal in ["TSTP", "STOP"] {
            let script = format!("echo begins; kill -{signal} $$; echo goes-on");
            let mut screen = on_screen(&desk, &["bash", "-c", &script]);
            screen.wait_for("begins");
            screen.wait_for("goes-on");
            assert_eq!(screen.end(), Some(0));
        }
    });
}
