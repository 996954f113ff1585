//! T7 and T8 with the real binary: what a jailed command can and cannot do, as whoever runs the tests and, if that is root, as a
//! user without rights too.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_plan::{Errno, SyscallAction, SyscallRule};
use ringfence_session::jail::wrap_with;
use ringfence_sys::seccomp::{self, Flags};
use ringfence_testkit::World;

const NOBODY: u32 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Nobody,
}

fn everybody() -> &'static [Who] {
    if rustix::process::geteuid().is_root() { &[Who::Caller, Who::Nobody] } else { &[Who::Caller] }
}

/// `project/` with `src/` and `out/`, and `other/file` beside it, all of it belonging to whom the command runs as.
struct Jail {
    world: World,
    who: Who,
}

impl Jail {
    fn new(who: Who) -> Self {
        let world = match who {
            Who::Caller => crate::world(),
            Who::Nobody => World::open_to_all(env!("CARGO_BIN_EXE_ringfence")),
        };
        let jail = Self { world, who };
        jail.world.mkdir("project/src/deep");
        jail.world.mkdir("project/out");
        jail.world.write("project/src/file", "inside\n");
        jail.world.write("project/top", "top\n");
        jail.world.write("other/file", "outside\n");
        jail.world.symlink("../../other", "project/src/way-out");
        if who == Who::Nobody {
            // Also the directory above belongs to nobody in particular, so that only the jail is in the way.
            fs::set_permissions(jail.world.path(""), Permissions::from_mode(0o777)).expect("our own directory");
            give_away(&jail.world.path("project"));
            give_away(&jail.world.path("other"));
        }
        jail
    }

    fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(self.world.binary());
        command.arg("jail-exec").args(arguments);
        self.dress(command)
    }

    /// In `project/`, as whom the jail is for.
    fn dress(&self, mut command: Command) -> Command {
        command
            .current_dir(self.world.path("project"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            // The words of a refusal are looked for.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .env("OTHER", self.world.path("other"));
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// Runs a script with `src/**` writable.
    fn sh(&self, script: &str) -> Output {
        let project = self.world.path("project");
        let arguments = ["--", "", "src/**", "--", "/bin/sh", "-c", script];
        let mut arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        arguments[1] = project.as_os_str();
        self.command(&arguments).output().expect("ringfence can be started")
    }

    #[track_caller]
    fn works(&self, script: &str) {
        let output = self.sh(script);
        assert!(output.status.success(), "as {:?}: {script}\n{}", self.who, output.stderr.escape_ascii());
    }

    /// The script's last command fails for want of rights, or because the kernel moves nothing between places with other rights.
    #[track_caller]
    fn fails(&self, script: &str) {
        let output = self.sh(script);
        let stderr = output.stderr.escape_ascii().to_string();
        let denied = ["Permission denied", "Operation not permitted", "cross-device", "Cross-device"];
        assert!(!output.status.success(), "as {:?}: {script}: it worked", self.who);
        assert!(denied.iter().any(|word| stderr.contains(word)), "as {:?}: {script}\n{stderr}", self.who);
        self.is_unharmed(script);
    }

    #[track_caller]
    fn is_unharmed(&self, script: &str) {
        let other = self.world.path("other");
        assert_eq!(fs::read(other.join("file")).ok().as_deref(), Some(b"outside\n".as_slice()), "{script}");
        assert_eq!(fs::read_dir(&other).map(Iterator::count).ok(), Some(1), "{script} left something");
        assert_eq!(fs::read(self.world.path("project/top")).ok().as_deref(), Some(b"top\n".as_slice()), "{script}");
    }
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root gives away what it likes");
    for entry in fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a type").is_dir() {
            give_away(&entry.path());
        } else if entry.file_type().expect("a type").is_file() {
            chown(entry.path(), Some(NOBODY), Some(NOBODY)).expect("root gives away what it likes");
        }
    }
}

/// T7: inside the directory before the wildcard, everything; reading and executing, everywhere.
#[test]
fn t7_writes_inside_work() {
    for who in everybody() {
        let jail = Jail::new(*who);
        jail.works("echo x > src/new && cat src/new && rm src/new");
        jail.works("echo x >> src/file && : > src/file && test ! -s src/file");
        jail.works(
            "mkdir src/a src/b && echo x > src/a/f && mv src/a/f src/b/g && ln src/b/g src/a/h && rm -r src/a src/b",
        );
        jail.works("ln -s nowhere src/l && mkfifo src/p && rm src/l src/p");
        jail.works("cat top ../other/file /etc/passwd && ls / /etc .. && test -r /proc/self/status");
        jail.works("echo x > /dev/null && : > src/t && dd if=/dev/zero of=src/t bs=1 count=1");
        jail.works("cd src && echo x > deep/f && rm deep/f");
    }
}

/// T7: outside, by every road. Each road leads there when nobody is jailed.
#[test]
fn t7_writes_outside_fail() {
    let scripts = [
        "echo x > top",
        "echo x > new",
        "echo x >> ../other/file",
        "truncate -s 0 ../other/file",
        "truncate -s 0 top",
        "rm ../other/file",
        "mkdir ../other/d",
        "rmdir out",
        "mkfifo ../other/p",
        // By a link that was there, and by one made inside.
        "echo x > src/way-out/file",
        "ln -s ../../other/file src/l; echo x > src/l",
        "ln -s /tmp src/t; echo x > src/t/ringfence-jail-$$ && rm /tmp/ringfence-jail-$$",
        // Renames and links: out, in, over, and of what stands above.
        "mv -T src/file ../other/moved",
        "cp src/file ../other/copied",
        "ln src/file ../other/linked",
        "ln ../other/file src/linked && echo x > src/linked",
        "mv ../other/file src/taken",
        "mv src/file top",
        "mv src renamed",
        "mv ../other src/other",
        // By the kernel's own links.
        "echo x > /proc/self/root$OTHER/file",
        "echo x > /proc/self/cwd/top",
        "exec 3< ../other/file; echo x > /proc/self/fd/3",
        "exec 3< top; echo x > /dev/fd/3",
        // Into what every user can write to.
        "echo x > /tmp/ringfence-jail-$$ && rm /tmp/ringfence-jail-$$",
        "echo x > /dev/shm/ringfence-jail-$$ && rm /dev/shm/ringfence-jail-$$",
    ];
    for who in everybody() {
        let jail = Jail::new(*who);
        for script in scripts {
            jail.fails(script);
        }
        for script in scripts {
            let free = Jail::new(*who);
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            let output = free.dress(command).output().unwrap();
            assert!(output.status.success(), "as {who:?}, free: {script}\n{}", output.stderr.escape_ascii());
        }
    }
}

/// T7: a directory that the caller opened before leads no further.
#[test]
fn t7_an_inherited_directory_gives_nothing() {
    for who in everybody() {
        let jail = Jail::new(*who);
        let project = jail.world.path("project");
        let script = "exec 9< ../other; exec \"$0\" jail-exec -- \"$1\" 'src/*' -- /bin/sh -c 'ls -d /proc/self/fd/9/file && echo x > /proc/self/fd/9/file'";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).arg(jail.world.binary()).arg(&project);
        let output = jail.dress(command).output().unwrap();
        assert_eq!(output.stdout, b"/proc/self/fd/9/file\n", "the descriptor was passed on");
        assert!(!output.status.success() && output.stderr.escape_ascii().to_string().contains("Permission denied"));
        jail.is_unharmed(script);
    }
}

/// T7: the restriction stays through exec, fork and a program of another kind.
#[test]
fn t7_descendants_are_bound() {
    for who in everybody() {
        let jail = Jail::new(*who);
        jail.fails("sh -c 'sh -c \"echo x > ../other/file\"'");
        jail.fails("setsid sh -c '(echo x > ../other/file) & wait $!'");
        jail.fails("env -i /bin/sh -c 'exec /bin/cp /etc/passwd ../other/file'");
        // A jail inside the jail cannot open what the outer one closed.
        let ringfence = jail.world.binary().display();
        jail.fails(&format!("{ringfence} jail-exec -- .. 'other/*' -- /bin/sh -c 'echo x > ../other/file'"));
        jail.works(&format!(
            "{ringfence} jail-exec -- . 'src/deep/*' -- /bin/sh -c 'echo x > src/deep/f && rm src/deep/f'"
        ));
        jail.fails(&format!("{ringfence} jail-exec -- . 'src/deep/*' -- /bin/sh -c 'echo x > src/file'"));
    }
}

/// T7: several globs, and those without a wildcard.
#[test]
fn t7_globs_open_their_directories() {
    for who in everybody() {
        let jail = Jail::new(*who);
        let run = |globs: &[&str], script: &str| {
            let mut arguments = vec!["--", "."];
            arguments.extend(globs);
            arguments.extend(["--", "sh", "-c", script]);
            let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
            jail.command(&arguments).output().unwrap().status.success()
        };
        assert!(run(&["src/*.rs", "out"], "echo x > src/a.txt && echo x > out/b"));
        assert!(!run(&["src/*.rs", "out"], "echo x > top"));
        assert!(run(&["src/deep/not-there-yet"], "echo x > src/deep/not-there-yet"));
        assert!(!run(&["src/deep/not-there-yet"], "echo x > src/file"));
        assert!(run(&["*.md"], "echo x > a.md && echo x > src/b"));
        assert!(!run(&["**"], "echo x > ../other/file"));
    }
}

/// T7: what the command is given, it has: arguments that are not text, environment, directory, streams, exit code.
#[test]
fn t7_it_becomes_the_command() {
    let jail = Jail::new(Who::Caller);
    let odd = OsStr::from_bytes(b"\xff --\n");
    let mut arguments: Vec<&OsStr> =
        ["--", ".", "src/*", "--", "sh", "-c", "printf %s \"$1\"; pwd; printf %s \"$ODD\"; cat >&2; exit 7", "sh"]
            .iter()
            .map(OsStr::new)
            .collect();
    arguments.push(odd);
    let mut command = jail.command(&arguments);
    command.env("ODD", odd).stdin(fs::File::open(jail.world.path("other/file")).unwrap());
    let output = command.output().unwrap();
    let project = jail.world.path("project").into_os_string();
    let expected = [odd.as_bytes(), project.as_bytes(), b"\n", odd.as_bytes()].concat();
    assert_eq!(output.stdout, expected);
    assert_eq!(output.stderr, b"outside\n");
    assert_eq!(output.status.code(), Some(7));
    let killed = jail.sh("kill -9 $$");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
}

#[track_caller]
fn exits(arguments: &[&str], code: i32, says: &str) {
    let run = crate::world();
    run.mkdir("project/src");
    run.symlink("../..", "project/link");
    run.symlink("src", "project/near");
    let arguments: Vec<&str> = [&["jail-exec"], arguments].concat();
    let run = run.ringfence(&arguments).expect_code(code);
    assert!(run.stderr.contains(says), "{arguments:?}: {}", run.stderr);
    assert!(run.stdout.is_empty(), "{arguments:?} started something");
}

/// T7: exit 2 for arguments of another form, and globs that cannot be used.
#[test]
fn t7_bad_arguments_exit_2() {
    exits(&[], 2, "there is nothing");
    exits(&["--"], 2, "the second `--`");
    exits(&[".", "src/*", "--", "echo"], 2, "the first `--`");
    exits(&["--", "--", "echo"], 2, "the anchor");
    exits(&["--", ".", "src/*"], 2, "the second `--`");
    exits(&["--", ".", "src/*", "--"], 2, "the command");
    exits(&["--", ".", "--", "echo", "x"], 2, "no glob");
    exits(&["--", ".", "/etc/*", "--", "echo", "x"], 2, "`/etc/*` leads out of the anchor");
    exits(&["--", ".", "src/*", "../x", "--", "echo", "x"], 2, "`../x` leads out of the anchor");
    exits(&["--", ".", "{a,b}", "--", "echo", "x"], 2, "holds braces");
    exits(&["--", ".", "", "--", "echo", "x"], 2, "is empty");
    exits(&["--", "nowhere", "*", "--", "echo", "x"], 2, "open(nowhere");
    exits(&["--", "ringfence.toml", "*", "--", "echo", "x"], 2, "open(ringfence.toml");
    exits(&["--", ".", "not-there/*", "--", "echo", "x"], 2, "hint: make the directory first");
    exits(&["--", ".", "not-there/deeper", "--", "echo", "x"], 2, "hint: make the directory first");
    exits(&["--", ".", "link/*", "--", "echo", "x"], 2, "links below the anchor are not followed");
    exits(&["--", ".", "link/home", "--", "echo", "x"], 2, "links below the anchor are not followed");
    exits(&["--", ".", "near/*", "--", "echo", "x"], 2, "links below the anchor are not followed");
    exits(&["--", ".", "near", "--", "echo", "x"], 2, "links below the anchor are not followed");
}

/// T7: exit 4 when there is nothing to execute.
#[test]
fn t7_a_command_that_cannot_be_executed_exits_4() {
    exits(&["--", ".", "src/*", "--", "no-such-program-anywhere"], 4, "execvp(no-such-program-anywhere)");
    exits(&["--", ".", "src/*", "--", "/etc/passwd"], 4, "Permission denied");
    exits(&["--", ".", "src/*", "--", ""], 4, "execvp()");
}

/// T7 T6: exit 3 on a kernel that cannot restrict. Such a kernel is a filter that answers in its place.
#[test]
fn t7_a_kernel_without_landlock_exits_3() {
    let calls = [
        ("landlock_create_ruleset", Errno::ENOSYS, "landlock_create_ruleset"),
        ("landlock_create_ruleset", Errno::EOPNOTSUPP, "landlock_create_ruleset"),
        ("landlock_add_rule", Errno::ENOSYS, "landlock_add_rule()"),
        ("landlock_restrict_self", Errno::EPERM, "landlock_restrict_self()"),
    ];
    for who in everybody() {
        for (name, errno, says) in calls {
            let jail = Jail::new(*who);
            let output = on_a_kernel_that_answers(name, errno, || jail.sh("echo started"));
            let stderr = output.stderr.escape_ascii().to_string();
            assert_eq!(output.status.code(), Some(3), "{name}: {stderr}");
            assert!(stderr.contains("cannot restrict the command") && stderr.contains(says), "{name}: {stderr}");
            assert!(output.stdout.is_empty(), "{name}: the command was started");
        }
    }
}

/// In a thread of its own, which is bound by the filter for good, and with it what it starts.
fn on_a_kernel_that_answers<T: Send>(name: &'static str, errno: Errno, work: impl FnOnce() -> T + Send) -> T {
    let rule = SyscallRule { name, when: &[], action: SyscallAction::Errno(errno), reason: "an old kernel" };
    let program = seccomp::compile(&[rule]).expect("one rule").program;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_no_new_privs(true).expect("always possible");
            seccomp::install(&program, Flags::NONE).expect("the tests run where filters can be installed");
            work()
        });
        thread.join().expect("the work does not panic")
    })
}

/// T8: a command that is rewritten keeps its arguments, directory and environment, and is jailed.
#[test]
fn t8_a_wrapped_command_is_the_same_but_jailed() {
    for who in everybody() {
        let jail = Jail::new(*who);
        let project = jail.world.path("project");
        let odd = OsString::from(OsStr::from_bytes(b"a\xffb"));
        let script = "printf '%s|' \"$1\" \"$KEPT\" \"${GONE-gone}\"; pwd; echo x > f && echo x > ../top";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&odd).current_dir(project.join("src"));
        command.env("KEPT", &odd).env("LC_ALL", "C").env_remove("GONE");
        let mut wrapped = wrap_with(jail.world.binary(), command, &project, &["src/*"]).unwrap();
        if *who == Who::Nobody {
            wrapped.gid(NOBODY).uid(NOBODY);
        }
        // What the caller sets afterwards is kept as on any command.
        let output = wrapped.stdin(Stdio::null()).output().unwrap();
        let src = project.join("src").into_os_string();
        let expected = [odd.as_bytes(), b"|", odd.as_bytes(), b"|gone|", src.as_bytes(), b"\n"].concat();
        assert_eq!(output.stdout.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert!(!output.status.success() && output.stderr.escape_ascii().to_string().contains("Permission denied"));
        assert!(project.join("src/f").exists());
        jail.is_unharmed(script);
    }
}

/// T8: a cleared environment stays cleared.
#[test]
fn t8_a_cleared_environment_stays_cleared() {
    let jail = Jail::new(Who::Caller);
    let project = jail.world.path("project");
    let mut command = Command::new("/usr/bin/env");
    command.env_clear().env("ONLY", "this").env("NOT", "that").env_remove("NOT");
    let output = wrap_with(jail.world.binary(), command, &project, &["src/*"]).unwrap().output().unwrap();
    assert_eq!(output.stdout.escape_ascii().to_string(), r"ONLY=this\n");
}

/// It is for programs, so it is not in the list; whoever asks is told how it works.
#[test]
fn t7_it_is_hidden_and_documented() {
    let world = crate::world();
    assert!(!world.ringfence(&["--help"]).expect_code(0).stdout.contains("jail-exec"));
    let help = world.ringfence(&["jail-exec", "--help"]).expect_code(0).stdout;
    assert!(help.contains("jail-exec -- ANCHOR GLOB... -- CMD") && help.contains("Landlock"), "{help}");
    assert!(world.ringfence(&["help", "jail-exec"]).expect_code(0).stdout.contains("ANCHOR"));
    // Everything behind the first `--` is the command's.
    let path: PathBuf = world.mkdir("project/src");
    assert!(path.exists());
    let run = world.ringfence(&["jail-exec", "--", ".", "src/*", "--", "echo", "--help", "--", "-x"]).expect_code(0);
    assert_eq!(run.stdout, "--help -- -x\n");
}
