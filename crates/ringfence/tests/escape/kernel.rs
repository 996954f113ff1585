//! Ways into the kernel that no build needs, and ways to more rights.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use ringfence_testkit::report_skip;

use super::ground::{Ground, Who, is_root, of_root};
use super::row::Thing::{Dir, File};
use super::row::{FENCE, READABLE, Row, SECRET, Sign, python, shell};
use super::suite::{Backend, Topic, fence, output, tests};

tests!(TOPIC);

const fn way(says: &'static str, attack: &'static str) -> Row {
    python(FENCE, says, attack, Sign::Works)
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        way("no ring carries out calls that no filter sees", "call('io_uring_setup', 1, bytes(120))"),
        #[cfg(target_arch = "x86_64")]
        way(
            "no call is made by the entry for 32 bits",
            "
            # mov eax, 20; int 0x80; ret: the number of the process, as an older machine asks for it.
            code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            code.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')
            ask = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
            if ask() != os.getpid():
                raise OSError(38, 'refused')
            ",
        ),
        way("keyrings cannot be asked", "call('keyctl', 0, -3, 1)"),
        way("no key is added", "call('add_key', b'user', f'evil-{ROW}'.encode(), b'x', 1, -2)"),
        way(
            "no key is asked for",
            "
            try:
                call('add_key', b'user', b'evil', b'x', 1, -2)
            except OSError:
                pass
            call('request_key', b'user', b'evil', None, 0)
            ",
        ),
        way(
            "no program is loaded into the kernel",
            "call('bpf', 0, struct.pack('5I', 2, 4, 8, 1, 0) + bytes(100), 120)",
        )
        .as_root(),
        way(
            "the kernel's own work is not watched",
            "
            attributes = struct.pack('IIQ', 1, 120, 0) + bytes(104)
            call('perf_event_open', attributes, -1, 0, -1, 0)
            ",
        )
        .as_root(),
        way("no page fault is held up", "call('userfaultfd', 1)"),
        way("the kernel's log is not read by a call", "call('syslog', 3, ctypes.create_string_buffer(4096), 4096)")
            .as_root(),
        way("memory is not made executable for what is run next", "c('personality', 0x0400000)"),
        way("nobody becomes root", "os.setresuid(0, 0, 0)").as_root(),
        way(
            "no capability is held",
            "
            held = [line for line in open('/proc/self/status') if re.match('Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]', line)]
            print(held)
            if not held:
                raise OSError(1, 'none')
            ",
        )
        .as_root(),
        way(
            "the limit on rights is not lifted",
            "
            if 'NoNewPrivs:\\t1' in open('/proc/self/status').read():
                raise OSError(1, 'set')
            ",
        ),
        way(
            "the filter is there",
            "
            if 'Seccomp:\\t2' in open('/proc/self/status').read():
                raise OSError(1, 'set')
            ",
        ),
        python(
            READABLE,
            "no file is opened by its number",
            "
            handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))
            number = ctypes.c_int()
            # Inside, the place does not exist, so its number is made from one beside it.
            first(
                lambda: c('name_to_handle_at', -100, f'{OUT}/file'.encode(), handle, ctypes.byref(number), 0),
                lambda: c('name_to_handle_at', -100, HERE.encode(), handle, ctypes.byref(number), 0),
            )
            fd = c('open_by_handle_at', os.open(HERE, os.O_RDONLY), handle, os.O_RDONLY)
            os.write(1, os.read(fd, 999))
            ",
            Sign::Secret,
        )
        .files(&[File("out/file", SECRET)])
        .as_root(),
        // Programs with more rights than whoever starts them.
        shell(FENCE, "a program of root's gives no rights", "./id", Sign::Says("euid=0"))
            .before(|ground, number| drop(of_root(ground, number, "here/id", 0o4755)))
            .made_by_root(),
        shell(FENCE, "a program of root's group gives no rights", "./id", Sign::Says("egid=0"))
            .before(|ground, number| drop(of_root(ground, number, "here/id", 0o2755)))
            .made_by_root(),
        python(
            FENCE,
            "a program with capabilities gives none",
            "os.execv('./cat', ['cat', 'only-root'])",
            Sign::Secret,
        )
        .before(with_capability)
        .made_by_root(),
        python(
            FENCE,
            "the system's own program that makes anybody root gives no rights",
            "
            read, write_end = os.pipe()
            pid = os.fork()
            if pid == 0:
                # It waits for a password that nobody types.
                os.dup2(read, 0)
                os.execv('/usr/bin/su', ['su'])
            for _ in range(1000):
                status = open(f'/proc/{pid}/status').read()
                if status.startswith('Name:\\tsu\\n'):
                    break
                time.sleep(0.01)
            print('effective', re.search('Uid:\\t[0-9]+\\t([0-9]+)', status)[1] + '.')
            os.kill(pid, 9)
            os.wait()
            ",
            Sign::Says("effective 0."),
        ),
        python(
            FENCE,
            "a process that becomes a server cannot ask for rights that it gave up",
            "
            # PR_CAP_AMBIENT_RAISE of CAP_SYS_ADMIN, and PR_SET_SECUREBITS.
            first(lambda: c('prctl', 47, 2, 21, 0, 0), lambda: c('prctl', 28, 0, 0, 0, 0))
            ",
            Sign::Works,
        )
        .as_root()
        .files(&[Dir("here/x")]),
    ],
};

/// A copy of `cat` that may read every file, and a file of root's alone.
fn with_capability(ground: &Ground, number: usize) {
    let (cat, only_root) = (ground.place(number, "here/cat"), ground.place(number, "here/only-root"));
    fs::copy("/usr/bin/cat", &cat).unwrap();
    fs::write(&only_root, ground.secret(number)).unwrap();
    fs::set_permissions(&only_root, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    if is_root() {
        // Revision 2 with its effective bit; CAP_DAC_READ_SEARCH is the second bit from zero.
        let words: [u32; 5] = [0x0200_0001, 1 << 2, 0, 0, 0];
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        rustix::fs::setxattr(&cat, "security.capability", &value, rustix::fs::XattrFlags::empty()).unwrap();
    }
}

/// Root's own project is shown as its worker's, and what the worker makes is root's. So a program that runs as its owner would run
/// as root, for whoever starts it outside: none is made, in any way.
#[test]
fn no_program_of_roots_is_planted() {
    if !is_root() {
        report_skip("a program of root's: the tests do not run as root");
        return;
    }
    let attack = "
import ctypes, os, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def of(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
open('chmod', 'w'), open('group', 'w'), open('fchmod', 'w'), open('fchmodat2', 'w')
for way in (
    lambda: os.chmod('chmod', 0o4755),
    lambda: os.chmod('group', 0o2755),
    lambda: os.fchmod(os.open('fchmod', os.O_RDONLY), 0o4755),
    lambda: of(452, -100, b'fchmodat2', 0o4755, 0),
    lambda: os.open('open', os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: of(437, -100, b'openat2', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24),
    lambda: os.mknod('mknod', 0o4755 | stat.S_IFREG),
    lambda: libc.linkat(os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755), b'', -100, b'without-a-name', 0x1000),
    lambda: libc.linkat(-100, f\"/proc/self/fd/{os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755)}\".encode(), -100, b'tmpfile', 0x400),
):
    try:
        way()
    except OSError:
        pass
open('done', 'w')
";
    let planted = |before: fn(&Ground) -> Vec<String>| {
        let ground = Ground::new(&[]);
        let project = ground.world.path("project");
        for path in [&project, &project.join("ringfence.toml")] {
            std::os::unix::fs::chown(path, Some(0), Some(0)).unwrap();
        }
        let seen = output(&ground, &before(&ground), &["/usr/bin/python3", "-I", "-c", attack]);
        assert!(project.join("done").exists(), "{}", seen.stderr.escape_ascii());
        let entries = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap());
        let runs_as_root = |entry: &fs::DirEntry| {
            let found = entry.metadata().unwrap();
            found.mode() & 0o6000 != 0 && found.uid() == 0
        };
        entries.filter(runs_as_root).map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let without = planted(|_| vec!["/usr/bin/env".to_owned()]);
    assert!(without.len() >= 8, "without a fence not every way works: {without:?}");
    assert_eq!(planted(|ground| fence(ground, Backend::Native, Who::Root)), Vec::<std::ffi::OsString>::new());
}
