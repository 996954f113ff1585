//! The known ways out of a changed root directory, each tried, and tenants who must not see each other.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::ground::{Ground, Who, outside, shown, skips};

/// Tries each way out; one that leads anywhere prints what it found. `OUTSIDER` is a process of the same user.
const WAYS_OUT: &str = r#"
import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
SECRET, OUTSIDER = sys.argv[1], int(sys.argv[2])

def checked(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

def nested_chroot():
    # The classic: another root below where we stand, and then up.
    os.mkdir('nested')
    checked(libc.chroot(b'nested'))
    for _ in range(64):
        os.chdir('..')
    checked(libc.chroot(b'.'))
    return open(SECRET).read()

def up():
    os.chdir('/')
    return open('../' * 64 + SECRET).read()

def by_descriptors():
    for fd in range(1024):
        try:
            os.fchdir(fd)
        except OSError:
            continue
        return open('../' * 64 + SECRET.lstrip('/')).read()
    raise OSError(9, 'no descriptor is a directory')

def by_handle():
    handle = (ctypes.c_byte * 136)(*([8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0] + [0] * 120))
    return checked(libc.open_by_handle_at(0, handle, os.O_RDONLY))

def mounts():
    os.makedirs('proc', exist_ok=True)
    checked(libc.mount(b'proc', b'proc', b'proc', 0, None))
    return open('proc/1/root' + SECRET).read()

def namespaces():
    checked(libc.unshare(0x10000000))
    return 'a user namespace'

def pivots():
    return checked(libc.syscall(155, b'/', b'/work'))

def traces():
    checked(libc.ptrace(16, OUTSIDER, None, None))
    return 'traced'

def reads_memory():
    buffer = ctypes.create_string_buffer(16)
    class Vec(ctypes.Structure):
        _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
    mine, theirs = Vec(ctypes.addressof(buffer), 16), Vec(0x400000, 16)
    return checked(libc.process_vm_readv(OUTSIDER, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))

def signals():
    os.kill(OUTSIDER, signal.SIGKILL)
    return 'killed'

def takes_descriptors():
    pidfd = checked(libc.syscall(434, OUTSIDER, 0))
    return checked(libc.syscall(438, pidfd, 0, 0))

def abstract():
    s = socket.socket(socket.AF_UNIX)
    s.connect('\0' + sys.argv[3])
    return 'connected'

def devices():
    os.mknod('disk', 0o600 | 0o060000, os.makedev(8, 0))
    return 'a disk'

def root_again():
    os.setuid(0)
    return 'root'

for way in (nested_chroot, up, by_descriptors, by_handle, mounts, namespaces, pivots, traces, reads_memory,
            takes_descriptors, abstract, devices, root_again, signals):
    try:
        print('ESCAPED:', way.__name__, way(), flush=True)
    except OSError as refused:
        print('refused:', way.__name__, refused, flush=True)
"#;

/// M1, M8: nothing that is known leads out.
#[test]
fn m1_the_known_ways_out_are_closed() {
    if skips() {
        return;
    }
    for who in [Who::Root, Who::Ambient] {
        let ground = Ground::new(who);
        ground.create("t", "shell,python");
        let secret = ground.world.write("secret", "the secret\n");
        let listener = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen(); \
                        print('up', flush=True); sys.stdin.read()";
        let name = format!("ringfence-root-{}-{who:?}", std::process::id());
        let mut outsider = Command::new("/usr/bin/python3");
        outsider.args(["-I", "-c", listener, &name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut outsider = outside(&mut outsider).spawn().unwrap();
        std::io::Read::read_exact(outsider.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
        let pid = outsider.id().to_string();
        let words = ["python3", "-I", "-c", WAYS_OUT, secret.to_str().unwrap(), &pid, &name];
        let seen = ground.run("t", &words);
        let said = shown(&seen);
        assert_eq!(said.matches("refused: ").count(), 14, "{who:?}: {said}");
        assert!(seen.status.success() && !said.contains("ESCAPED") && !said.contains("the secret"), "{who:?}: {said}");
        assert!(outsider.try_wait().unwrap().is_none(), "{who:?}: somebody outside was ended");
        // The control: outside, the same process is reached in some of these ways.
        let mut bare = Command::new("/usr/bin/python3");
        bare.args(&words[1..]).current_dir("/var/tmp");
        let bare = shown(&outside(&mut bare).output().unwrap());
        for way in ["up", "signals", "abstract", "namespaces"] {
            assert!(bare.contains(&format!("ESCAPED: {way} ")), "{way} cannot fail: {bare}");
        }
        let _ = outsider.kill();
        outsider.wait().unwrap();
    }
}

/// A directory among the standard descriptors would lead out of any root: nothing starts with one.
#[test]
fn m1_a_directory_is_not_handed_in() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Ambient);
    ground.create("t", "shell");
    let mut command = ground.started("t", &["sh", "-c", "echo started"]);
    let seen = command.stdin(File::open("/").unwrap()).output().unwrap();
    assert_eq!(seen.status.code(), Some(125), "{}", shown(&seen));
    assert!(shown(&seen).contains("a directory is no stream"), "{}", shown(&seen));
}

/// No right is left inside, and none can be had again.
#[test]
fn m1_no_right_is_left() {
    if skips() {
        return;
    }
    let script = "
import ctypes
libc = ctypes.CDLL(None)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
sets = (ctypes.c_uint32 * 6)()
libc.capget(header, sets)
bound = [number for number in range(41) if libc.prctl(23, number, 0, 0, 0) == 1]
ambient = [number for number in range(41) if libc.prctl(47, 1, number, 0, 0) == 1]
print(list(sets), libc.prctl(39, 0, 0, 0, 0), bound, ambient)
";
    for (who, bound) in [(Who::Root, "[]"), (Who::Ambient, "[18]"), (Who::File, "[18]")] {
        let ground = Ground::new(who);
        ground.create("t", "python");
        let seen = ground.run("t", &["python3", "-c", script]);
        // Whoever has that one right cannot empty the bounding set; with no_new_privs nothing comes of it.
        assert_eq!(shown(&seen).lines().next(), Some(format!("[0, 0, 0, 0, 0, 0] 1 {bound} []").as_str()), "{who:?}");
    }
}

/// M8: two tenants of one host, each with a root, see nothing of each other: neither files nor what the other runs.
#[test]
fn m8_two_tenants_do_not_see_each_other() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let (one, two) = (ground.create("one", "shell"), ground.create("two", "shell"));
    ground.write(&one.join("mine"), "of one\n");
    ground.write(&two.join("theirs"), "of two\n");
    ground.world.write("gateway.conf", "postgres://gateway:secret@db/\n");
    let places =
        [two.join("theirs"), ground.world.path("gateway.conf"), two.join("../etc/hosts"), "/etc/shadow".into()];
    for place in &places {
        let place = place.to_str().unwrap();
        let seen = ground.run("one", &["sh", "-c", "cat mine; cat \"$0\"; ls -d \"$0\"", place]);
        assert!(seen.stdout == b"of one\n", "{place}: {}", shown(&seen));
        assert!(shown(&seen).contains("No such file or directory"), "{place}: {}", shown(&seen));
    }
    // What one leaves in its temporary directory is not the other's.
    let first = ground.run("one", &["sh", "-c", "echo x > /tmp/left && ls /tmp"]);
    assert_eq!(first.stdout, b"left\n", "{}", shown(&first));
    let second = ground.run("two", &["sh", "-c", "ls /tmp /work"]);
    assert_eq!(second.stdout, b"/tmp:\n\n/work:\ntheirs\n", "{}", shown(&second));
    // A link that a tenant leaves in its work does not lead out of it.
    std::os::unix::fs::symlink(&two, one.join("link")).unwrap();
    let seen = ground.run("one", &["sh", "-c", "cat link/theirs"]);
    assert!(!shown(&seen).contains("of two"), "{}", shown(&seen));
    fs::remove_file(one.join("link")).unwrap();
}

/// M5: what a policy denies in the work is denied there too; neither wall stands alone.
#[test]
fn m5_the_policy_holds_in_a_root() {
    if skips() {
        return;
    }
    for who in [Who::Root, Who::Ambient] {
        let ground = Ground::new(who);
        let work = ground.create("t", "shell");
        ground.write(&work.join(".env"), "KEY=secret\n");
        ground.write(
            &work.join("ringfence.toml"),
            "version = 1\n[files]\nwrite = []\nread = [\".\"]\ndeny = [\"**/.env\"]\n",
        );
        let seen = ground.run("t", &["sh", "-c", "cat .env; echo x > new; cat ringfence.toml | head -1"]);
        assert_eq!(seen.stdout, b"version = 1\n", "{who:?}: {}", shown(&seen));
        assert!(!work.join("new").exists(), "{who:?}: {}", shown(&seen));
    }
}
