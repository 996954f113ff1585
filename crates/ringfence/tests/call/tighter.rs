//! What a call cannot do although its session can.

use crate::ground::{BOTH, From, each, text};

/// K10: what is written, and what is not.
#[test]
fn k10_a_call_writes_where_it_may() {
    each(|ground| {
        for from in BOTH {
            for (args, script, works) in [
                (&[][..], "echo x > src/f && rm src/f && mkdir d && rmdir d", true),
                (&[], "echo x > $W/other/f", false),
                (&[], "rm $W/other/kept", false),
                (&[], "cat $W/other/kept", true),
                (&["--write", "src"], "echo x > src/f && mv src/f src/g && rm src/g", true),
                (&["--write", "src"], "echo x > top", false),
                (&["--write", "src"], "mv top src/", false),
                (&["--write", "src"], "rm -r docs", false),
                (
                    &["--write", "$W/project/docs", "--write", "src"],
                    "echo x > docs/f && rm docs/f && ! echo x > top",
                    true,
                ),
                (&["--write", "$W/other"], "echo x > $W/other/f && rm $W/other/f && ! echo x > src/f", true),
                (&["--read-only"], "echo x > src/f", false),
                (&["--read-only"], "echo x > \"$TMPDIR/f\" && echo x > \"$HOME/f\" && cat top", true),
                (&["--protect", "src"], "cat src/a", true),
            ] {
                ground.check(from, args, script, works);
            }
        }
        assert_eq!(std::fs::read(ground.path("other/kept")).unwrap(), b"kept\n");
        ground.left_nothing();
    });
}

/// K10: what is protected besides holds where there is a view of its own; elsewhere it is said that it does not.
#[test]
fn k10_what_is_protected_besides() {
    each(|ground| {
        ground.check(From::Outside, &["--protect", "src"], "echo x > src/f", false);
        let output = ground.call(From::Inside, &["--protect", "src"], "true");
        let said = text(&output.stderr);
        assert!(said.contains("not held: protect ") && said.contains("/project/src"), "{said}");
    });
}

/// K10: what is read, and what is not.
#[test]
fn k10_a_call_reads_what_it_may() {
    each(|ground| {
        for from in BOTH {
            for (args, script, works) in [
                (&["--deny", "private"][..], "cat top", true),
                (&["--deny", "private"], "cat private/key", false),
                (&["--deny", "private"], "cat link/key", false),
                (&["--deny", "link"], "cat private/key", false),
                (&["--deny", "$W/project/private"], "cat private/key", false),
                (&["--deny", "**/*.pem"], "cat a.pem", false),
                (&["--deny", "*.pem"], "cat a.pem", false),
                (
                    &["--read", "docs", "--write", "src", "--workdir", "src"],
                    "cat ../docs/x && echo x > f && rm f",
                    true,
                ),
                (&["--read", "docs", "--write", "src", "--workdir", "docs"], "cat ../top", false),
                (&[], "cat $W/home/.ssh/id", false),
                (&[], "cat $W/home/.config/ringfence/config.toml", false),
                (&[], "ls $W/home/.local/state/ringfence/trust", false),
                (&[], "ls $W/home/.local/state/ringfence/sessions/*/home", false),
            ] {
                ground.check(from, args, script, works);
            }
        }
    });
}

/// E1: a call that leaves out its session's root and names a directory in it is denied what the session is denied.
#[test]
fn e1_a_floating_deny_holds_in_a_call_that_names_a_part() {
    each(|ground| {
        ground.write(&[("project/docs/.env", "SECRET\n"), ("project/docs/deep/er/.env", "SECRET\n")]);
        ground.write(&[("other/sub/.env", "SECRET\n"), ("other/sub/kept", "kept\n")]);
        ground.policy("[files]\ndeny = [\"**/.env\"]\n");
        for from in BOTH {
            for (part, name) in [("docs", ".env"), ("docs", "deep/er/.env"), ("docs/deep", "er/.env")] {
                let args = ["--read-only", "--read", part, "--workdir", part];
                ground.check(from, &args, &format!("cat {name}"), false);
            }
            ground.check(
                from,
                &["--read-only", "--read", "$W/other/sub", "--workdir", "$W/other/sub"],
                "cat .env",
                false,
            );
            ground.check(
                from,
                &["--read-only", "--read", "$W/other/sub", "--workdir", "$W/other/sub"],
                "cat kept",
                true,
            );
            ground.check(from, &["--read", "docs", "--write", "docs/deep", "--workdir", "docs"], "cat .env", false);
            ground.check(
                from,
                &["--read", "docs", "--write", "docs/deep", "--workdir", "docs"],
                "cat deep/er/.env",
                false,
            );
            ground.check(
                from,
                &["--read", "docs", "--write", "docs/deep", "--workdir", "docs"],
                "echo x > deep/f",
                true,
            );
        }
    });
}

/// K10: names in what is denied are hidden where there is a view of its own; elsewhere it is said that they can be seen.
#[test]
fn k10_names_in_what_is_denied() {
    each(|ground| {
        ground.check(From::Outside, &["--deny", "private"], "ls private", false);
        let output = ground.call(From::Inside, &["--deny", "private"], "true");
        assert!(text(&output.stderr).contains("not held: nothing else can be seen"), "{}", text(&output.stderr));
    });
}

/// K10: where the whole host is shown, what ringfence keeps for its user is still closed.
#[test]
fn k10_the_state_is_closed_in_the_broad_view() {
    each(|ground| {
        ground.write(&[("project/ringfence.toml", "version = 1\n[files]\nview = \"host\"\nwrite = [\".\"]\n")]);
        assert!(ground.ringfence().args(["trust", "--force"]).output().unwrap().status.success());
        for from in BOTH {
            ground.check(from, &[], "cat $W/elsewhere/kept", true);
            ground.check(from, &[], "cat $W/home/.config/ringfence/config.toml", false);
            ground.check(from, &[], "ls $W/home/.local/state/ringfence/trust", false);
        }
    });
}

/// K10: the environment is made anew, and holds what is named only where the session has it too.
#[test]
fn k10_the_environment_is_fresh() {
    each(|ground| {
        for from in BOTH {
            let said = ground.check(from, &[], "env", true);
            assert!(!said.contains("sesame"), "as {:?} from {from:?}: {said}", ground.who);
            let said = ground.check(from, &["--env", "TOKEN"], "env", true);
            assert!(said.contains("TOKEN=sesame-open"), "as {:?} from {from:?}: {said}", ground.who);
            let said = ground.check(from, &[], "echo \"$RINGFENCE $RINGFENCE_SESSION $HOME\"; ls -A \"$HOME\"", true);
            // Git's own settings are there, without templates.
            let words: Vec<&str> = said.split_whitespace().filter(|word| *word != ".gitconfig").collect();
            assert!(words.len() == 3 && words[0] == "1" && words[2].contains(words[1]), "{said}");
        }
    });
}

/// K10: a widening is refused with the thing that would be gained, and nothing is started.
#[test]
fn k10_a_widening_is_refused_and_named() {
    each(|ground| {
        ground.policy("[network]\nallow = [\"api.example.com\"]\nhost_ports = [5432]\n[limits]\nmemory = \"1GiB\"\npids = 100\nwall = \"1h\"\n");
        for from in BOTH {
            for (args, gained) in [
                (["--write", "$W/elsewhere"], "write $W/elsewhere"),
                (["--write", "/"], "write /"),
                (["--write", "ringfence.toml"], "write $W/project/ringfence.toml"),
                (["--read", "$W/home/.ssh"], "read $W/home/.ssh"),
                (["--workdir", "$W/elsewhere"], "a working directory: $W/elsewhere"),
                (["--host", "evil.example.com"], "host evil.example.com"),
                (["--host", "api.example.com:22"], "host api.example.com:22"),
                (["--host-port", "22"], "loopback port 22"),
                (["--socket", "/run/docker.sock"], "socket /run/docker.sock"),
                (["--env", "AWS_SECRET_ACCESS_KEY"], "variable AWS_SECRET_ACCESS_KEY"),
                (["--memory", "2GiB"], "more memory"),
                (["--pids", "101"], "more processes"),
                (["--timeout", "2h"], "more time"),
            ] {
                let output = ground.call(from, &args, "echo STARTED");
                let said = text(&output.stderr);
                assert_eq!(output.status.code(), Some(125), "as {:?} from {from:?}: {args:?}\n{said}", ground.who);
                assert!(!text(&output.stdout).contains("STARTED"), "{args:?}");
                let expected = format!("this would gain {}\n", ground.text(gained));
                assert!(said.contains(&expected) && said.contains("hint: "), "{args:?}: {said}");
            }
        }
        ground.left_nothing();
    });
}

/// K10: for programs in any language: how it ended, the end of what it printed, and why it was refused.
#[test]
fn k10_a_call_is_told_as_json() {
    each(|ground| {
        for from in BOTH {
            let json = |args: &[&str], script: &str| {
                let output = ground.call(from, args, script);
                let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                (output.status.code(), value)
            };
            let (code, value) = json(&["--json", "--max-output", "4"], "echo 0123456789; echo err >&2; exit 3");
            assert_eq!((code, &value["outcome"], &value["code"]), (Some(3), &"exited".into(), &3.into()), "{value}");
            assert_eq!(
                (&value["stdout"]["tail"], &value["stdout"]["dropped"]),
                (&"789\n".into(), &7.into()),
                "{value}"
            );
            assert_eq!(value["stderr"]["tail"], "err\n", "{value}");
            let (code, value) = json(&["--json"], "exit 137");
            assert_eq!((code, &value["outcome"], &value["code"]), (Some(137), &"exited".into(), &137.into()));
            let (code, value) = json(&["--json"], "kill -9 $$");
            assert_eq!((code, &value["outcome"], &value["signal"]), (Some(137), &"signaled".into(), &9.into()));
            let (code, value) = json(&["--json", "--timeout", "3s"], "trap '' TERM; echo up; sleep 1000");
            assert_eq!(code, Some(137), "it was started, and ended: {value}");
            assert_eq!((&value["outcome"], &value["stdout"]["tail"]), (&"timed-out".into(), &"up\n".into()), "{value}");
            let (code, value) = json(&["--json", "--write", "/etc"], "true");
            assert_eq!(
                (code, &value["outcome"], &value["gained"]),
                (Some(125), &"refused".into(), &"write /etc".into())
            );
        }
    });
}

/// K10: the session's limits hold for a call by a group of its own. Where it has none that is said, also where the session has said
/// the same of itself: its own may hold.
#[test]
fn k10_limits_that_do_not_hold_for_a_call_are_said() {
    each(|ground| {
        ground.policy("[limits]\nmemory = \"1GiB\"\n");
        let plain = ground.ringfence().args(["run", "--", "true"]).output().unwrap();
        let is_short = text(&plain.stderr).contains("[memory]");
        let output = ground.call(From::Outside, &["--json"], "true");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["not_held"].to_string().contains("[memory]"), is_short, "as {:?}: {value}", ground.who);
        // Inside, whoever counts the session counts the call.
        let output = ground.call(From::Inside, &["--json"], "true");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!value["not_held"].to_string().contains("[memory]"), "as {:?}: {value}", ground.who);
    });
}

/// What is wrong on the command line is told as that.
#[test]
fn k10_what_cannot_be_read() {
    each(|ground| {
        let session = ground.session();
        for args in [&["--timeout", "soon"][..], &["--memory", "much"], &["--env", "A=B"], &["--host", "*"]] {
            let output = session.call(args, "true");
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        }
        assert_eq!(session.exec(&[]).output().unwrap().status.code(), Some(2));
    });
}
