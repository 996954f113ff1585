//! What somebody inside tries against the view. Each hole that was ever found is a line here.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Fence, Who, each, give_away, is_root, text};

fn target(fence: &Fence) {
    fence.write(&[
        ("project/.env", "SECRET\n"),
        ("project/decoy", "decoy\n"),
        ("project/a/b/.env", "SECRET\n"),
        ("project/x/y/z", "z\n"),
        ("project/infra/main.tf", "old\n"),
        ("project/.git/config", "[core]\n"),
        ("project/.git/hooks/pre-commit.sample", "\n"),
        ("project/.git/HEAD", "ref: refs/heads/main\n"),
        ("other/file", "SECRET\n"),
        ("home/.ssh/id", "SECRET\n"),
    ]);
    fence.policy("[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n");
}

/// Calls that a shell has no word for.
const CALLS: &str = "import ctypes, os, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0: sys.exit(os.strerror(ctypes.get_errno()))
    return result
def rename(a, b, flags): check(libc.renameat2(-100, a.encode(), -100, b.encode(), flags))
EXCHANGE, WHITEOUT = 2, 4
";

/// Nothing that is guarded changes its name, whichever call asks for it.
#[test]
fn renames_of_every_kind() {
    each(|fence| {
        target(fence);
        for call in [
            "rename('.env', 'decoy', EXCHANGE)",
            "rename('decoy', '.env', EXCHANGE)",
            "rename('a', 'x', EXCHANGE)",
            "rename('a/b', 'x/y', EXCHANGE)",
            "rename('infra', 'x', EXCHANGE)",
            "rename('x', 'infra', EXCHANGE)",
            "rename('infra/main.tf', 'decoy', EXCHANGE)",
            "rename('.git', 'x', EXCHANGE)",
            "rename('.git/hooks', 'x', EXCHANGE)",
            "rename('.git/config', 'decoy', EXCHANGE)",
            "rename('decoy', '.git/config', 0)",
            "rename('decoy', '.env', 0)",
            "rename('a', 'moved', 0)",
            "rename('a/b', 'moved', 0)",
            "rename('.env', 'moved', WHITEOUT)",
            "rename('../project', '../p', 0)",
            "rename('.', 'p', 0)",
            "os.link('.env', 'hard')",
            "os.link('infra/main.tf', 'hard')",
            "fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.link(f'/proc/self/fd/{fd}', 'infra/new', follow_symlinks=True)",
            "os.symlink('/tmp', 'infra/link')",
            "os.mkdir('.git/hooks/x')",
            "os.rmdir('a/b')",
            "os.unlink('a/b/.env')",
        ] {
            let output = fence.run(&["python3", "-c", &format!("{CALLS}{call}")]);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success(), "as {:?}: {call} worked\n{shown}", fence.who);
            assert!(
                !shown.contains("error: cannot") && !shown.contains("SyntaxError"),
                "as {:?}: {call}\n{shown}",
                fence.who
            );
        }
        // Work beside it goes on, also across directories that hold something guarded.
        let works = "rename('decoy', 'x/y/z', EXCHANGE); rename('x/y/z', 'a/b/moved', 0); os.link('a/b/moved', 'a/hard'); rename('x', 'a/x', 0)";
        let output = fence.run(&["python3", "-c", &format!("{CALLS}{works}")]);
        assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
        for (path, content) in
            [("project/.env", "SECRET\n"), ("project/a/b/.env", "SECRET\n"), ("project/infra/main.tf", "old\n")]
        {
            assert_eq!(fs::read(fence.path(path)).unwrap(), content.as_bytes());
        }
    });
}

/// No descriptor, handle or link of the kernel's leads past a guard.
#[test]
fn descriptors_and_magic_links() {
    each(|fence| {
        target(fence);
        for call in [
            "print(open('/proc/self/root/' + os.getcwd() + '/.env').read())",
            "print(open('/proc/self/cwd/.env').read())",
            "print(open(f'/proc/{os.getppid()}/cwd/.env').read())",
            "print(open('/proc/1/cwd/.env').read())",
            "print(os.listdir('/proc/1/fd'))",
            "print(os.readlink('/proc/1/exe'))",
            "print(open('/proc/1/mem').read(1))",
            "print(open('/proc/1/maps').read())",
            "fd = os.open('.env', os.O_PATH); print(open(f'/proc/self/fd/{fd}').read())",
            "fd = os.open('.', os.O_PATH); print(open('.env', opener=lambda p, f: os.open(p, f, dir_fd=fd)).read())",
            "fd = os.open('infra/main.tf', os.O_RDONLY); open(f'/proc/self/fd/{fd}', 'w').write('x')",
            "fd = os.open('infra/main.tf', os.O_PATH); os.chmod(f'/proc/self/fd/{fd}', 0o777)",
            "fd = os.open('infra/main.tf', os.O_RDONLY); os.fchmod(fd, 0o777)",
            "fd = os.open('infra/main.tf', os.O_RDONLY); os.utime(fd)",
            "fd = os.open('infra/main.tf', os.O_RDONLY); os.setxattr(fd, 'user.x', b'x')",
            "fd = os.open('infra/main.tf', os.O_RDONLY); import fcntl, array; fcntl.ioctl(fd, 0x40086602, array.array('l', [16]))",
            "import mmap; fd = os.open('infra/main.tf', os.O_RDWR); mmap.mmap(fd, 4, mmap.MAP_SHARED)",
            "os.chdir('/'); os.chdir('..'); os.chdir('..'); print(open(sys.argv[1] + '/other/file').read())",
            "os.chroot('/tmp')",
            "handle = ctypes.create_string_buffer(136); handle[0] = 128; mount = ctypes.c_int(); \
             check(libc.name_to_handle_at(-100, b'a', handle, ctypes.byref(mount), 0)); fd = os.open('.', os.O_RDONLY); \
             print(os.listdir(check(libc.open_by_handle_at(fd, handle, 0))))",
            "check(libc.syscall(428, -100, b'.', 1))",
            "check(libc.unshare(0x10000000))",
            "check(libc.mount(b'x', b'/tmp', b'tmpfs', 0, 0))",
        ] {
            let world = fence.path("");
            let output = fence.run(&[
                OsStr::new("python3"),
                OsStr::new("-c"),
                OsStr::new(&format!("{CALLS}{call}")),
                world.as_os_str(),
            ]);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success(), "as {:?}: {call} worked\n{shown}", fence.who);
            assert!(!shown.contains("SECRET"), "as {:?}: {call}\n{shown}", fence.who);
            assert!(
                !shown.contains("error: cannot") && !shown.contains("SyntaxError"),
                "as {:?}: {call}\n{shown}",
                fence.who
            );
        }
        assert_eq!(fs::read(fence.path("project/infra/main.tf")).unwrap(), b"old\n");
    });
}

/// The table of mounts names what is shown, and no place of the host beside it.
#[test]
fn the_table_of_mounts_tells_little() {
    each(|fence| {
        target(fence);
        fence.write(&[("other/secret-name/x", "")]);
        let table = fence.works("cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats");
        assert!(!table.contains("/other") && !table.contains(".ssh"), "{table}");
        for line in fence.works("cat /proc/self/mountinfo").lines() {
            let options = line.split(' ').nth(5).unwrap_or_default();
            assert!(options.contains("nosuid"), "{line}");
            let is_device = line.contains(" /dev/");
            assert!(is_device || options.contains("nodev"), "{line}");
        }
    });
}

/// What the host mounts below the project later does not arrive.
#[test]
fn what_the_host_mounts_later_does_not_arrive() {
    each(|fence| {
        target(fence);
        fence.write(&[("project/later/x", "")]);
        let script = "mount --make-rshared /; \
             \"$0\" run -- sh -c 'echo ready > ready; while test ! -e go; do sleep 0.02; done; cat later/.env later/x' & \
             while test ! -e ready; do sleep 0.02; done; \
             mount -t tmpfs x later; echo SECRET > later/.env; mount --bind ../other x; touch go; wait $!";
        // Only who may mount can do this; the session inside is the same.
        let mut command = Command::new("unshare");
        command
            .args(if is_root() { "-m" } else { "-Urm" }.split(' '))
            .args(["/bin/sh", "-c", script])
            .arg(fence.world.binary());
        command.current_dir(fence.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", fence.path("home"));
        let output = command.output().unwrap();
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("SECRET") && shown.contains("later/.env: No such file"), "{shown}");
        for name in ["ready", "go"] {
            let _ = fs::remove_file(fence.path("project").join(name));
        }
    });
}

/// Whatever bytes the project's path is made of, and the names in it.
#[test]
fn odd_names() {
    let names: &[&[u8]] = &[
        b"x y",
        b"new\nline",
        b"tab\there",
        b"-rf",
        b"\xff\xfe",
        b"back\\slash",
        b"quote'\"`$(id)",
        b"%s*?[a]",
        "日本 \u{202e}x".as_bytes(),
        b"...",
        b"\\040",
        &[b'n'; 255],
    ];
    each(|fence| {
        for name in names {
            let root = fence.path("run").join(OsStr::from_bytes(name));
            let inner = root.join(OsStr::from_bytes(name));
            fs::create_dir_all(inner.join("infra")).unwrap();
            fs::write(inner.join(".env"), "SECRET\n").unwrap();
            fs::write(inner.join("infra/x"), "old\n").unwrap();
            fs::write(
                root.join("ringfence.toml"),
                "version = 1\n[files]\ndeny = [\"**/.env\"]\nprotect = [\"**/infra\"]\n",
            )
            .unwrap();
            fence.own();
            let run = |script: &str| {
                let mut command = fence.ringfence();
                command
                    .current_dir(&root)
                    .args(["run", "--", "/bin/sh", "-c", script, "sh"])
                    .arg(OsStr::from_bytes(name));
                command.output().unwrap()
            };
            let output = run("cd \"./$1\" && echo x > new && cat infra/x && pwd");
            assert!(output.status.success(), "as {:?}: {}\n{}", fence.who, name.escape_ascii(), text(&output.stderr));
            for script in
                ["cat \"./$1/.env\"", "echo x > \"./$1/infra/x\"", "mv \"./$1\" moved", "cat \"$PWD/$1/.env\""]
            {
                let output = run(script);
                let shown = text(&output.stdout) + &text(&output.stderr);
                assert!(
                    !output.status.success() && !shown.contains("SECRET"),
                    "{}: {script}\n{shown}",
                    name.escape_ascii()
                );
                assert!(!shown.contains("error: cannot"), "{}: {script}\n{shown}", name.escape_ascii());
            }
        }
    });
}

/// Projects on other file systems, that are mount points, or that are reached through a link.
#[test]
fn odd_places() {
    each(|fence| {
        target(fence);
        symlink("project", fence.path("linked")).unwrap();
        let fill = "mkdir -p infra a && echo SECRET > .env && echo SECRET > a/.env && echo old > infra/main.tf && \
                    printf 'version = 1\\n[files]\\ndeny = [\"**/.env\"]\\nprotect = [\"infra\"]\\n' > ringfence.toml && \
                    chmod -R a+rwX .";
        fence.world.mkdir("other/lower");
        fence.world.mkdir("other/upper");
        fence.world.mkdir("other/work");
        fence.world.mkdir("run/place");
        fence.own();
        let places = [
            ("true", "$W/linked"),
            ("mount -t tmpfs x $W/run/place", "$W/run/place"),
            ("mount --bind $W/other/lower $W/run/place", "$W/run/place"),
            (
                "mount -t tmpfs x $W/run/place; mkdir $W/run/place/l $W/run/place/u $W/run/place/w $W/run/place/m; \
                 mount -t overlay -o userxattr,lowerdir=$W/run/place/l,upperdir=$W/run/place/u,workdir=$W/run/place/w x $W/run/place/m",
                "$W/run/place/m",
            ),
        ];
        for (mount, place) in places {
            for (inner, works) in [
                ("cat infra/main.tf", true),
                ("cat .env", false),
                ("cat a/.env", false),
                ("mv a b", false),
                ("echo x > infra/main.tf", false),
                ("cat $W/other/file", false),
            ] {
                let prepare = format!("{mount}; cd {place}; {fill}");
                let inner = fence.script(inner);
                let output = fence.after_mounting(&prepare, &[fence.binary(), "run", "--", "/bin/sh", "-c", &inner]);
                let shown = text(&output.stdout) + &text(&output.stderr);
                assert_eq!(output.status.success(), works, "as {:?}: {place} {mount}: {inner}\n{shown}", fence.who);
                assert!(
                    !shown.contains("SECRET") && !shown.contains("error: cannot"),
                    "as {:?}: {inner}\n{shown}",
                    fence.who
                );
            }
        }
    });
}

/// Thousands of guards: all of them hold, and it starts in a time that nobody notices twice.
#[test]
fn thousands_of_guards() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    for number in 0..5000 {
        fence.world.write(format!("project/{}/{}/.env", number / 50, number % 50), "SECRET\n");
    }
    fence.policy("[files]\ndeny = [\"**/.env\"]\n");
    let start = std::time::Instant::now();
    let output = fence.sh("cat */*/.env 2>&1 | grep -c denied; cat */*/.env 2> /dev/null | head -1");
    assert_eq!(text(&output.stdout), "5000\n", "{}", text(&output.stderr));
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
}

/// A file that is handed in as standard input is the one inside, or nothing starts.
#[test]
fn standard_input_leads_past_no_guard() {
    each(|fence| {
        target(fence);
        let with = |path: &str, script: &str| {
            let mut command = fence.ringfence();
            command.args(["run", "--", "/bin/sh", "-c", script]).stdin(fs::File::open(fence.path(path)).unwrap());
            command.output().unwrap()
        };
        let output = with("project/.env", "cat");
        fence.refused(&output, ".env is taken away: deny");
        let output = with("project/a", "cat /proc/self/fd/0/b/.env");
        assert!(output.status.code() == Some(125) && output.stdout.is_empty(), "{}", text(&output.stderr));
        with("project/infra/main.tf", "echo x > /proc/self/fd/0");
        assert_eq!(fs::read(fence.path("project/infra/main.tf")).unwrap(), b"old\n");
        // What somebody hands in on purpose is theirs to hand in.
        let output = with("other/file", "cat");
        assert_eq!(text(&output.stdout), "SECRET\n");
        let mut log = fs::File::create(fence.path("other/log")).unwrap();
        log.write_all(b"SECRET\n").unwrap();
        fence.own();
        let mut command = fence.ringfence();
        command
            .args(["run", "--", "/bin/sh", "-c", "dd if=/proc/self/fd/1 iflag=nonblock of=/dev/stderr; echo out"])
            .stdout(log);
        let output = command.output().unwrap();
        assert!(!text(&output.stderr).contains("SECRET"), "{}", text(&output.stderr));
        assert_eq!(fs::read(fence.path("other/log")).unwrap(), b"SECRET\nout\n");
        // Also where everything can be read, and this cannot be written by its name.
        fence.write(&[("project/p.toml", "version = 1\n[files]\nview = \"host\"\n")]);
        let log = fs::File::create(fence.path("other/log")).unwrap();
        let script = fence
            .script("echo out; echo again > /proc/self/fd/1 || echo refused; echo x >> $W/other/log || echo refused");
        let mut command = fence.ringfence();
        command.args(["run", "--policy", "p.toml", "--", "/bin/sh", "-c", &script]).stdout(log);
        assert!(command.output().unwrap().status.success());
        assert_eq!(fs::read(fence.path("other/log")).unwrap(), b"out\nagain\nrefused\n");
        // A protected file is no place for output either.
        let log = fs::OpenOptions::new().append(true).open(fence.path("project/infra/main.tf")).unwrap();
        let mut command = fence.ringfence();
        let output = command.args(["run", "--", "echo", "x"]).stdout(log).output().unwrap();
        assert!(text(&output.stderr).contains("main.tf is taken away: protect"), "{}", text(&output.stderr));
        assert_eq!(fs::read(fence.path("project/infra/main.tf")).unwrap(), b"old\n");
    });
}

/// A world is left as it was found, but for what the command made.
#[test]
fn nothing_is_left_in_the_work_tree() {
    fn tree(dir: &Path, names: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                tree(&path, names);
            }
            names.push(path);
        }
    }
    each(|fence| {
        target(fence);
        give_away(&fence.path("project"));
        let mut before = Vec::new();
        tree(&fence.path("project"), &mut before);
        fence.works("true");
        let mut command = fence.ringfence();
        command
            .args(["run", "--", "sh", "-c", "echo started; exec sleep 1000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut killed = command.spawn().unwrap();
        let mut stdout = killed.stdout.take().unwrap();
        let mut first = [0; 8];
        stdout.read_exact(&mut first).unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        // It ends when the last process of the session does.
        stdout.read_to_end(&mut Vec::new()).unwrap();
        let mut after = Vec::new();
        tree(&fence.path("project"), &mut after);
        assert_eq!(before, after);
        fence.works("true");
        fence.is_collected();
    });
}
