//! Does deeds inside a layer, and undoes each at once, so that the next finds the tree as it was.
//!
//! What the kernel answers is all that counts: no file is looked at before, since that could be refused by itself. What was done
//! and cannot be undone is said.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_plan::verify::{Came, Deed, One, Two};
use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::{CANARY, GREETING, HOSTILE, wire};

/// The name of the hidden command that calls [`run`].
pub const COMMAND: &str = "try-deeds";

/// How long somebody of the host's is waited for. All of them are on this machine.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Reads deeds from the input and answers each with four bytes on the output. The code to end with.
pub fn run() -> u8 {
    let mut bytes = Vec::new();
    if io::stdin().lock().read_to_end(&mut bytes).is_err() {
        return 1;
    }
    let Some(deeds) = wire::deeds(&bytes) else { return 1 };
    let mut output = io::BufWriter::with_capacity(256, io::stdout().lock());
    for deed in &deeds {
        if output.write_all(&attempt(deed).number().to_le_bytes()).is_err() {
            return 1;
        }
    }
    u8::from(output.flush().is_err())
}

/// Tries one deed, here.
pub(super) fn attempt(deed: &Deed) -> Came {
    let done = match deed {
        Deed::One(one, path) => do_one(*one, path),
        Deed::Two(two, from, to) => do_two(*two, from, to),
        Deed::Around { dir, to, file } => around(dir, to, file),
        Deed::Resolve(name) => resolve(name),
        Deed::Dial(port) => dial(*port),
        Deed::Abstract(name) => abstract_socket(name),
        Deed::Signal(pid) => signal(*pid),
    };
    match done {
        Ok(came) => came,
        Err(errno) => Came::Refused(errno.raw_os_error()),
    }
}

type Done = Result<Came, Errno>;

/// What was done is undone; it is stuck where that fails.
fn undone(undo: Result<(), Errno>) -> Done {
    Ok(if undo.is_ok() { Came::Done } else { Came::Stuck })
}

fn do_one(one: One, path: &AbsPath) -> Done {
    let name = path.as_bytes();
    let open =
        |flags: OFlags| rustix::fs::open(name, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::from_raw_mode(0o644));
    match one {
        One::Read => {
            let mut bytes = [0; 64];
            let got = rustix::io::read(open(OFlags::RDONLY)?, &mut bytes)?;
            Ok(if &bytes[..got] == CANARY { Came::Done } else { Came::Strange })
        }
        One::List => {
            let dir = open(OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut entries = rustix::fs::Dir::read_from(dir)?;
            entries.next().map_or(Ok(Came::Strange), |entry| entry.map(|_| Came::Done))
        }
        One::See => rustix::fs::lstat(name).map(|_| Came::Done),
        One::Write => {
            let file = open(OFlags::WRONLY)?;
            rustix::io::pwrite(&file, &CANARY[..1], 0)?;
            Ok(Came::Done)
        }
        One::Truncate => {
            let file = open(OFlags::WRONLY | OFlags::TRUNC)?;
            undone(rustix::io::pwrite(&file, CANARY, 0).map(|_| ()))
        }
        One::Mode => {
            let status = rustix::fs::stat(name)?;
            rustix::fs::chmod(name, Mode::from_raw_mode(status.st_mode & 0o7777))?;
            Ok(Came::Done)
        }
        One::Create => create(name),
        One::MakeDirectory => {
            rustix::fs::mkdir(name, Mode::RWXU)?;
            undone(rustix::fs::rmdir(name))
        }
        One::MakeLink => {
            rustix::fs::symlink(c"verify", name)?;
            undone(rustix::fs::unlink(name))
        }
        One::MakeSocket => {
            let (_dir, place) = short(path)?;
            let listener = UnixListener::bind(place).map_err(errno)?;
            drop(listener);
            undone(rustix::fs::unlink(name))
        }
        One::Remove => remove(name),
        One::RemoveDirectory => {
            rustix::fs::rmdir(name)?;
            undone(rustix::fs::mkdir(name, Mode::from_raw_mode(0o755)))
        }
        One::Connect => {
            let (_dir, place) = short(path)?;
            heard(UnixStream::connect(place).map_err(errno)?)
        }
    }
}

/// Makes a file with content that means harm wherever content means something. Where content is judged, the file is there while it is
/// written, and the content is dropped when the file is closed: that is a refusal.
fn create(name: &[u8]) -> Done {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, HOSTILE)?;
    drop(file);
    let until = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::stat(name) {
            Err(Errno::NOENT) => return Err(Errno::ACCESS),
            Err(errno) => return Err(errno),
            Ok(status) if status.st_size != 0 || Instant::now() > until => return undone(rustix::fs::unlink(name)),
            // It is being judged.
            Ok(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Removes a file or a link, and makes the same again.
fn remove(name: &[u8]) -> Done {
    let target = rustix::fs::readlink(name, Vec::new()).ok();
    rustix::fs::unlink(name)?;
    undone(match target {
        Some(target) => rustix::fs::symlink(target, name),
        None => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o644));
            file.and_then(|file| rustix::io::write(&file, CANARY)).map(|_| ())
        }
    })
}

fn do_two(two: Two, from: &AbsPath, to: &AbsPath) -> Done {
    let rename = |from: &AbsPath, to: &AbsPath, flags| {
        rustix::fs::renameat_with(CWD, from.as_bytes(), CWD, to.as_bytes(), flags)
    };
    match two {
        Two::Rename => {
            rename(from, to, RenameFlags::NOREPLACE)?;
            undone(rename(to, from, RenameFlags::NOREPLACE))
        }
        Two::Exchange => {
            rename(from, to, RenameFlags::EXCHANGE)?;
            undone(rename(from, to, RenameFlags::EXCHANGE))
        }
        Two::Link => {
            rustix::fs::linkat(CWD, from.as_bytes(), CWD, to.as_bytes(), AtFlags::empty())?;
            undone(rustix::fs::unlink(to.as_bytes()))
        }
    }
}

/// What could be read under the other name is what counts: that a directory has one harms nobody.
fn around(dir: &AbsPath, to: &AbsPath, file: &[u8]) -> Done {
    let rename = |from: &AbsPath, to: &AbsPath| {
        rustix::fs::renameat_with(CWD, from.as_bytes(), CWD, to.as_bytes(), RenameFlags::NOREPLACE)
    };
    rename(dir, to)?;
    let found = do_one(One::Read, &file.split(|byte| *byte == b'/').fold(to.clone(), |at, name| at.child(name)));
    if rename(to, dir).is_err() {
        return Ok(Came::Stuck);
    }
    found
}

fn resolve(name: &str) -> Done {
    // The library says little of why a name has no address.
    let mut found = (name, 443).to_socket_addrs().map_err(|_| Errno::HOSTUNREACH)?;
    found.next().map(|_| Came::Done).ok_or(Errno::HOSTUNREACH)
}

fn dial(port: u16) -> Done {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(errno)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(errno)?;
    greeted(stream)
}

fn abstract_socket(name: &[u8]) -> Done {
    let address = UnixAddress::from_abstract_name(name).map_err(errno)?;
    heard(UnixStream::connect_addr(&address).map_err(errno)?)
}

fn heard(stream: UnixStream) -> Done {
    stream.set_read_timeout(Some(PATIENCE)).map_err(errno)?;
    greeted(stream)
}

/// Somebody who was reached says so. A connection that leads to nobody is none.
fn greeted(mut stream: impl io::Read) -> Done {
    let mut bytes = [0; GREETING.len()];
    match stream.read_exact(&mut bytes) {
        Ok(()) if bytes == *GREETING => Ok(Came::Done),
        Ok(()) => Ok(Came::Strange),
        Err(cause) => Err(errno(cause)),
    }
}

/// The number may be that of somebody inside, who has done nothing.
fn signal(pid: u32) -> Done {
    let is_ours = |pid: u32| {
        let name = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pid <= 2 || pid == std::process::id() || name.windows(COMMAND.len()).any(|part| part == COMMAND.as_bytes())
    };
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    if is_ours(pid) {
        return Err(Errno::SRCH);
    }
    rustix::process::kill_process(number, Signal::TERM).map(|()| Came::Done)
}

/// A path that fits into a socket's address.
fn short(path: &AbsPath) -> Result<(rustix::fd::OwnedFd, std::path::PathBuf), Errno> {
    let (parent, name) = path.split_last();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(parent, flags, Mode::empty())?;
    let place = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string());
    Ok((dir, place.join(OsStr::from_bytes(name.unwrap_or_default()))))
}

fn errno(cause: io::Error) -> Errno {
    Errno::from_io_error(&cause).unwrap_or(Errno::TIMEDOUT)
}
