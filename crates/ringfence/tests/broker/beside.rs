//! Two sessions in one project, and a call beside a session: each has a broker of its own, and neither is misled by the other.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use ringfence_fs::Environment as _;
use ringfence_session::call::Within;
use ringfence_session::fenced::FencedEnvironment;
use ringfence_session::look::facts_here;
use ringfence_surface::SubPolicy;

use crate::desk::{Desk, each_user, shown};

/// Who works beside the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Session,
    Call,
    Unbrokered,
}

/// Plays both parts at once for so many seconds, the second not as long: a call ends with its session, which waits for it. What the
/// first said, and how the second ended.
fn both(desk: &Desk, [first, second]: [&str; 2], other: Other, seconds: u32) -> (String, Output) {
    desk.write("beside.py", concat!(include_str!("quiet.py"), include_str!("beside.py")));
    for word in ["go", "done"] {
        let _ = std::fs::remove_file(desk.project(word));
    }
    let mut command = desk.bare(&[]);
    command.args(["/usr/bin/python3", "beside.py", first, &seconds.to_string()]);
    let mut session = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut lines, mut name) = (BufReader::new(session.stdout.take().unwrap()), String::new());
    lines.read_line(&mut name).unwrap();
    let mut command = match other {
        Other::Session => desk.bare(&[]),
        Other::Unbrokered => desk.bare(&["--no-broker"]),
        Other::Call => {
            let mut command = desk.outside(desk.world.binary().to_str().unwrap());
            command.args(["exec", "--within", name.trim(), "--"]);
            command
        }
    };
    let ended = command.args(["/usr/bin/python3", "beside.py", second, &(seconds / 2).to_string()]).output().unwrap();
    drop(session.stdin.take());
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    session.wait().unwrap();
    (said, ended)
}

/// K8: what one session looks at and moves another does not fill meanwhile.
#[test]
fn k8_a_directory_is_moved_with_what_was_looked_at_whoever_works_beside() {
    each_user(|desk| {
        for other in [Other::Session, Other::Call] {
            let (said, ended) = both(&desk, ["moves", "makes"], other, 8);
            let all = format!("{other:?}: {said}{}", shown(&ended));
            assert!(said.contains("over after") && shown(&ended).contains("over after"), "{all}");
            assert!(!desk.project(".cargo/config.toml").exists(), "{all}");
        }
        // The race is one: without a broker beside it something lands.
        let (said, ended) = both(&desk, ["moves", "makes"], Other::Unbrokered, 60);
        assert!(said.contains("LANDED"), "{said}{}", shown(&ended));
    });
}

/// K8: of a repository under a harmless name each makes a part, and not both.
#[test]
fn k8_two_sessions_do_not_make_a_repository_together() {
    each_user(|desk| {
        let (said, ended) = both(&desk, ["plants", "hooks"], Other::Session, 8);
        let all = format!("{said}{}", shown(&ended));
        assert!(said.contains("over after") && shown(&ended).contains("over after"), "{all}");
        let (said, ended) = both(&desk, ["plants", "hooks"], Other::Unbrokered, 60);
        assert!(said.contains("LANDED"), "{said}{}", shown(&ended));
    });
}

/// K8: nor does a program that writes files for its tools beside a session.
#[test]
fn k8_files_of_the_library_land_where_they_were_judged() {
    each_user(|desk| {
        let owner = std::fs::metadata(desk.project("")).unwrap().uid();
        if owner != rustix::process::geteuid().as_raw() {
            // This process writes as who it is.
            return;
        }
        desk.write("beside.py", concat!(include_str!("quiet.py"), include_str!("beside.py")));
        let mut command = desk.bare(&[]);
        command.args(["/usr/bin/python3", "beside.py", "moves", "8"]);
        let mut session = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut lines, mut name) = (BufReader::new(session.stdout.take().unwrap()), String::new());
        lines.read_line(&mut name).unwrap();
        let mut facts = facts_here(&desk.project("")).unwrap();
        facts.environment.insert(b"HOME".to_vec(), desk.home("").as_os_str().as_bytes().to_vec());
        facts.environment.remove(b"XDG_STATE_HOME".as_slice());
        let (within, _found) = Within::session(name.trim(), facts).unwrap();
        let policy = SubPolicy::for_tools(&within.surface);
        let tools = FencedEnvironment::new(within, policy).unwrap();
        tools.write(Path::new("go"), b"").unwrap();
        let mut turns = 0;
        while session.try_wait().unwrap().is_none() {
            turns += u32::from(tools.write(Path::new("x/config.toml"), b"EVIL").is_ok());
            // It may have been moved away.
            let _ = tools.remove(Path::new("x/config.toml"));
        }
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        assert!(said.contains("over after") && turns > 10, "{turns}: {said}");
    });
}

/// Somebody who waits for a lease keeps nobody from moving a directory, in this session or in another.
#[test]
fn whoever_waits_for_a_lease_holds_nobody_up() {
    let waits = "
import fcntl, os, signal, time
told = []
signal.signal(signal.SIGIO, lambda *_: told.append(1))
fcntl.fcntl(os.open('leased', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)
os.mkdir('x')
pid = os.fork()
if pid == 0:
    os.truncate('leased', 0)
    os._exit(0)
# The kernel says when somebody waits for it to be let go of.
while not told:
    time.sleep(0.01)
print('waits', flush=True)
start = time.monotonic()
os.rename('x', 'y')
print('moved' if time.monotonic() - start < 4 else 'late', flush=True)
input()
os.kill(pid, 9)
";
    let moves = "
import os, time
os.mkdir('a')
start = time.monotonic()
os.rename('a', 'b')
print('moved' if time.monotonic() - start < 4 else 'late')
";
    each_user(|desk| {
        desk.write("leased", "text");
        let python = |script| ["/usr/bin/python3", "-I", "-c", script];
        let mut session =
            desk.bare(&[]).args(python(waits)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(session.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "waits");
        let ended = desk.bare(&[]).args(python(moves)).output().unwrap();
        assert_eq!(ended.stdout, b"moved\n", "{}", shown(&ended));
        assert_eq!(lines.next().unwrap().unwrap(), "moved");
        drop(session.stdin.take());
        session.wait().unwrap();
    });
}
