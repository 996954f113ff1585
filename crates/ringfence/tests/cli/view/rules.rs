//! What rules say and what the view shows are the same, in the odd cases too.

use ringfence_testkit::report_skip;

use super::{each, is_root, text};

/// What an exception opens inside something denied or protected is there, and nothing around it.
#[test]
fn exceptions_open_what_they_name() {
    each(|fence| {
        fence.write(&[
            ("project/private/key", "SECRET\n"),
            ("project/private/public/readme", "hello\n"),
            ("project/private/public/.env", "SECRET\n"),
            ("project/private/public/.env.example", "example\n"),
            ("project/infra/main.tf", "old\n"),
            ("project/infra/state/now", "state\n"),
            ("project/infra/state/hooks", "old\n"),
        ]);
        fence.policy(
            "[files]\ndeny = [\"private\", \"!private/public\", \"**/.env*\", \"!**/.env.example\"]\n\
             protect = [\"infra\", \"!infra/state\", \"infra/state/hooks\"]\n",
        );
        for script in [
            "cat private/public/readme private/public/.env.example",
            "echo new > private/public/new && rm private/public/new",
            "echo new > infra/state/now && cat infra/main.tf infra/state/hooks",
        ] {
            fence.works(script);
        }
        for script in [
            "cat private/key",
            "ls private",
            "touch private/new",
            "cat private/public/.env",
            "cat private/public/../key",
            "mv private p",
            "mv private/public p",
            "rm -r private/public",
            "echo x > infra/main.tf",
            "echo x > infra/state/hooks",
            "mv infra i",
            "mv infra/state i",
        ] {
            fence.fails(script);
        }
    });
}

/// A denied file of the system is closed; so is a program.
#[test]
fn a_program_can_be_denied() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"/usr/bin/env\", \"/etc/passwd\"]\n");
        fence.fails("/usr/bin/env true");
        fence.fails("cat /etc/passwd");
        fence.works("cat /etc/group > /dev/null");
        assert_eq!(fence.run(&["/usr/bin/env"]).status.code(), Some(126));
    });
}

/// A single file at the top of the project is protected: not written, not renamed, not replaced, not linked and written.
#[test]
fn a_single_file_at_the_top_is_protected() {
    each(|fence| {
        fence.write(&[("project/one", "old\n"), ("project/two", "two\n")]);
        fence.policy("[files]\nprotect = [\"one\"]\n");
        for script in [
            "echo x > one",
            "mv one o",
            "mv two one",
            "rm -f one",
            "ln one o && echo x > o",
            "chmod 777 one",
            "touch one",
            "truncate -s 0 one",
            "python3 -c 'import os; os.setxattr(\"one\", \"user.x\", b\"x\")'",
            "python3 -c 'import os; os.link(\"one\", \"hard\")'",
        ] {
            fence.fails(script);
        }
        fence.works("cat one && mv two three && echo x > three");
        assert_eq!(std::fs::read(fence.path("project/one")).unwrap(), b"old\n");
    });
}

/// The project itself denied: there is nothing to start in.
#[test]
fn a_denied_project_is_refused() {
    each(|fence| {
        for deny in ["\".\"", "\"..\"", "\"/\""] {
            fence.policy(&format!("[files]\ndeny = [{deny}]\n"));
            fence.refused(&fence.sh("echo started"), "is denied: deny");
        }
    });
}

/// The project itself protected: it is there and cannot be written.
#[test]
fn a_protected_project_is_read_only() {
    each(|fence| {
        fence.write(&[("project/src/lib.rs", "code\n")]);
        fence.policy("[files]\nprotect = [\".\"]\n");
        fence.works("cat src/lib.rs");
        fence.fails("echo x > src/lib.rs");
        fence.fails("touch new");
        fence.fails("chmod 777 .");
    });
}

/// A root that is read inside one that is written, and the other way round.
#[test]
fn roots_inside_roots() {
    each(|fence| {
        fence.write(&[("project/a/b/file", "old\n"), ("project/a/b/.env", "SECRET\n"), ("project/top", "old\n")]);
        // A read-only part of something writable is writable: that is what the policy says.
        fence.policy("[files]\nwrite = [\".\"]\nread = [\"a\"]\ndeny = [\"**/.env\"]\n");
        fence.works("echo x > a/b/file && mv a/b/file top2 && mv top2 a/b/file");
        fence.fails("cat a/b/.env");
        fence.policy("[files]\nwrite = [\"a/b\"]\ndeny = [\"**/.env\"]\n");
        fence.works("echo x > a/b/file && mkdir a/b/new && rmdir a/b/new");
        for script in ["echo x > top", "touch a/new", "mv a/b a/c", "mv a c", "cat a/b/.env", "mv a/b/.env a/b/e"] {
            fence.fails(script);
        }
        fence.policy("[files]\nwrite = []\n");
        fence.fails("touch new");
        fence.works("cat top");
    });
}

/// Pipes of others cannot be written or read where only reading is granted: a read-only mount stops neither.
#[test]
fn pipes_in_what_is_only_readable_are_closed() {
    each(|fence| {
        fence.write(&[("other/docs/readme", "hello\n")]);
        for place in ["other/docs/pipe", "project/pipe"] {
            rustix::fs::mknodat(rustix::fs::CWD, fence.path(place), rustix::fs::FileType::Fifo, 0o666.into(), 0)
                .unwrap();
        }
        fence.own();
        fence.write(&[("project/p.toml", "version = 1\n[files]\nread = [\"../other/docs\"]\n")]);
        let run = |script: &str| {
            let mut command = fence.ringfence();
            command.args(["run", "--policy", "p.toml", "--", "timeout", "60", "/bin/sh", "-c", &fence.script(script)]);
            command.output().unwrap()
        };
        // Without a mask they would wait for the other side.
        for script in ["cat $W/other/docs/pipe", "echo x > $W/other/docs/pipe"] {
            let output = run(script);
            let stderr = super::text(&output.stderr);
            assert!(
                stderr.contains("ermission denied") || stderr.contains("Read-only"),
                "as {:?}: {script}: {:?} {stderr}",
                fence.who,
                output.status
            );
        }
        let output = run("cat $W/other/docs/readme; echo x > pipe & cat pipe");
        assert_eq!(super::text(&output.stdout), "hello\nx\n", "{}", super::text(&output.stderr));
    });
}

/// C: a device that `write` names can be opened, as the nodes of a GPU must be; one that only lies in a writable directory cannot.
#[test]
fn c_a_device_that_is_named_can_be_opened() {
    if !is_root() {
        return report_skip("device nodes: the tests do not run as root");
    }
    each(|fence| {
        fence.write(&[("other/x", "")]);
        for node in ["project/node", "other/node"] {
            let mut made = std::process::Command::new("mknod");
            made.arg("-m").arg("666").arg(fence.world.path(node));
            assert!(made.args(["c", "1", "3"]).status().unwrap().success());
        }
        fence.policy("[files]\nwrite = [\".\", \"../other/node\"]\n");
        let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
        fence.works("exec 3<> $W/other/node");
        fence.fails("exec 3<> node");
    });
}
