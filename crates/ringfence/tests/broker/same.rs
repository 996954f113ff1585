//! With the broker and without it, calls do the same.

use std::process::{Command, Output};

use crate::desk::{Desk, each_user, shown};

/// Longer than the table takes on a busy machine; only a failure waits for it.
const PATIENCE: &str = "280";

fn run(desk: &Desk, options: &[&str], words: &[&str]) -> Output {
    let mut command: Command = desk.outside("/usr/bin/timeout");
    command.args(["--kill-after=5", PATIENCE]).arg(desk.world.binary()).arg("run").args(options).arg("--").args(words);
    command.output().unwrap()
}

/// Some four hundred cases over every call that is brokered: what each returns, and what is on the disk afterwards.
#[test]
fn k8_file_calls_are_those_of_the_kernel() {
    each_user(|desk| {
        desk.write("posix.py", include_str!("posix.py"));
        let top = desk.project("tree").to_str().unwrap().to_owned();
        let [without, with] = [["--no-broker"].as_slice(), &[]].map(|options| {
            let output = run(&desk, options, &["/usr/bin/python3", "posix.py", &top]);
            assert!(output.status.success(), "{}", shown(&output));
            String::from_utf8(output.stdout).unwrap()
        });
        let cases = |said: &str| said.lines().filter(|line| !line.starts_with(' ')).count();
        assert!(cases(&without) > 400, "{} cases", cases(&without));
        let mut case = "";
        for (line, (expected, got)) in without.lines().zip(with.lines()).enumerate() {
            if !expected.starts_with(' ') {
                case = expected;
            }
            assert_eq!(got, expected, "line {line}, in {case}");
        }
        assert_eq!(cases(&without), cases(&with));
    });
}

/// D: where no rule of the policy decides, the answer is the kernel's, errno included: the same script outside and inside.
#[test]
fn d_errnos_inside_are_those_outside() {
    each_user(|desk| {
        desk.write("errnos.py", include_str!("errnos.py"));
        let clean = || {
            for name in ["dir", "file", "bits"] {
                let path = desk.project(name);
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
            }
        };
        let outside = desk.outside("/usr/bin/python3").arg("errnos.py").output().unwrap();
        clean();
        let inside = run(&desk, &[], &["/usr/bin/python3", "errnos.py"]);
        clean();
        assert!(outside.status.success() && inside.status.success(), "{}\n{}", shown(&outside), shown(&inside));
        let lines = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
        let (outside, inside) = (lines(&outside), lines(&inside));
        assert!(outside.lines().count() > 30, "{outside}");
        // Root outside may do what no agent may; who works in root's place has other ids.
        if outside.starts_with("as a user") {
            for (expected, got) in outside.lines().zip(inside.lines()) {
                assert_eq!(got, expected, "{inside}");
            }
        }
        assert_eq!(inside.lines().count(), outside.lines().count(), "{inside}");
        for line in ["is mounted on /proc EXDEV", "is mounted on /proc/self EBUSY"] {
            assert!(inside.lines().any(|got| got == line), "{line}\n{inside}");
        }
    });
}

/// Calls that answer otherwise inside, each a row of docs/differences.md, by how its line begins.
const LISTED: [&str; 10] = [
    "SO_PEERCRED of a client",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_notify",
    "prctl PR_CAPBSET_READ",
    "openat2 NO_XDEV ../x",
    "openat2 NO_XDEV /etc/passwd",
    "openat2 plain /proc self/fd/0",
    "openat2 plain /proc self/ns/mnt",
];

/// [C] [D] Sockets of kinds that there are not, message queues, leases, pidfds, prctl, ids, names of threads, openat2: the same script
/// outside and inside, with nothing that differs but what the documentation lists.
#[test]
fn d_calls_inside_answer_as_outside_or_are_listed() {
    each_user(|desk| {
        desk.write("calls.py", include_str!("calls.py"));
        let outside = desk.outside("/usr/bin/python3").arg("calls.py").output().unwrap();
        let inside = run(&desk, &[], &["/usr/bin/python3", "calls.py"]);
        assert!(outside.status.success() && inside.status.success(), "{}\n{}", shown(&outside), shown(&inside));
        let lines = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
        let (outside, inside) = (lines(&outside), lines(&inside));
        assert!(outside.lines().count() > 250, "{outside}");
        for line in ["/proc/self/task/TID/comm a name", "pthread_setname_np of another thread 0", "oom_score_adj 500"] {
            assert!(inside.lines().any(|got| got == line), "{line}\n{inside}");
        }
        // Root outside may do what no agent may; who works in root's place has other ids.
        if outside.starts_with("as a user") {
            assert_eq!(inside.lines().count(), outside.lines().count(), "{inside}");
            for (expected, got) in outside.lines().zip(inside.lines()) {
                let is_listed = LISTED.iter().any(|listed| expected.starts_with(listed));
                assert!(got == expected || is_listed, "outside: {expected}\ninside: {got}");
            }
            for listed in LISTED {
                let of = |said: &str| {
                    said.lines().filter(|line| line.starts_with(listed)).map(str::to_owned).collect::<Vec<_>>()
                };
                assert_ne!(of(&inside), of(&outside), "{listed} is listed and does not differ");
            }
        }
    });
}

/// [C] What a process may write of itself in `/proc` it may write of itself alone.
#[test]
fn c_the_name_of_another_process_is_not_written() {
    each_user(|desk| {
        let script = "import os, errno\n\
                      pid = os.fork()\n\
                      if pid == 0: os.read(os.pipe()[0], 1)\n\
                      for place in (f'/proc/{pid}/comm', f'/proc/{pid}/task/{pid}/comm', '/proc/1/comm', '/proc/self/oom_adj', \
                      f'/proc/self/task/{pid}/comm', f'/proc/{pid}/task/{os.getpid()}/comm', '/proc/self/clear_refs', \
                      '/proc/self/uid_map', '/proc/sys/kernel/hostname', f'/proc/self/task/{os.getpid()}/comm/x'):\n\
                      \x20   try: os.open(place, os.O_WRONLY); print('OPENED', place)\n\
                      \x20   except OSError as error: print(errno.errorcode[error.errno])\n\
                      os.kill(pid, 9)\n";
        desk.write("other.py", script);
        let output = run(&desk, &[], &["/usr/bin/python3", "other.py"]);
        let said = shown(&output);
        assert!(output.status.success() && !said.contains("OPENED") && said.contains("ENOENT"), "{said}");
    });
}

/// Memory, links and directories change while calls about them are carried out.
#[test]
fn k8_nothing_lands_on_a_protected_name_in_a_race() {
    each_user(|desk| {
        desk.write("races.py", include_str!("races.py"));
        let output = run(&desk, &[], &["/usr/bin/python3", "races.py", "100000", "25"]);
        let said = shown(&output);
        assert!(output.status.success() && said.contains("attempts"), "{said}");
        for name in [".envrc", ".vscode", "a.git/hooks", "a.git/config", "b.git/hooks", "b.git/config", "deep/.envrc"] {
            let is_harmless = || std::fs::read(desk.project(name)).is_ok_and(|text| text.is_empty());
            assert!(!desk.project(name).exists() || is_harmless(), "{name} landed\n{said}");
        }
    });
}

/// The race is one: without the broker something lands.
#[test]
fn k8_the_race_can_be_won_without_the_broker() {
    each_user(|desk| {
        desk.write("races.py", include_str!("races.py"));
        let output = run(&desk, &["--no-broker"], &["/usr/bin/python3", "races.py", "100000", "25"]);
        assert!(shown(&output).contains("LANDED"), "{}", shown(&output));
    });
}

/// What is moved is what was looked at: no link, and no directory with something in it, takes its place meanwhile.
#[test]
fn k8_what_is_moved_is_what_was_looked_at() {
    each_user(|desk| {
        desk.write("moved.py", concat!(include_str!("quiet.py"), include_str!("moved.py")));
        let output = run(&desk, &[], &["/usr/bin/python3", "moved.py", "12"]);
        assert!(output.status.success() && shown(&output).contains("over"), "{}", shown(&output));
        let output = run(&desk, &["--no-broker"], &["/usr/bin/python3", "moved.py", "12"]);
        assert!(shown(&output).contains("LANDED"), "{}", shown(&output));
    });
}

/// A directory that something was just made in is another one once it was moved or another has its name.
#[test]
fn k8_a_directory_is_judged_by_where_it_is_now() {
    each_user(|desk| {
        desk.write("again.py", include_str!("again.py"));
        let output = run(&desk, &[], &["/usr/bin/python3", "again.py"]);
        let said = shown(&output);
        assert!(output.status.success() && said.contains("all is held"), "{said}");
    });
}

/// Whoever has given up rights inside does not get them back by way of the broker, and neither do its children.
#[test]
fn k10_rights_that_were_given_up_stay_so() {
    each_user(|desk| {
        desk.write("landlock.py", include_str!("landlock.py"));
        let output = run(&desk, &[], &["/usr/bin/python3", "landlock.py"]);
        let said = shown(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("held") || said.contains("no Landlock"), "{said}");
    });
}

/// Nobody inside sets the limits of the process that carries out calls, takes the mark of somebody with more rights, or has it open
/// what the kernel shows of another process.
#[test]
fn k10_the_broker_is_not_starved_and_lends_nothing() {
    each_user(|desk| {
        desk.write("limits.py", include_str!("limits.py"));
        let output = run(&desk, &[], &["/usr/bin/python3", "limits.py"]);
        let said = shown(&output);
        assert!(output.status.success() && said.contains("all is held"), "{said}");
    });
}
