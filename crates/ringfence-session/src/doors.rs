//! Unix sockets of the host that a policy names: each has a socket of the session's own in its place, and what arrives there
//! is carried to the host's by the supervisor. Only bytes pass; a descriptor does not.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixListener;

use ringfence_plan::{MountOp, Rung, Withheld};
use ringfence_surface::{AbsPath, Look, PathFact, Sourced, Surface};
use ringfence_sys::net;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::beneath::Owner;

/// What the sockets are called in the session's directory.
const DIRECTORY: &str = "sockets";

/// The sockets that are given, and what is not.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Who listens inside, and for whom on the host.
    pub(crate) listeners: Vec<(UnixListener, AbsPath)>,
    pub(crate) withheld: Vec<Withheld>,
}

impl Doors {
    /// Makes them for whoever works inside.
    ///
    /// # Errors
    /// When a socket could not be made.
    pub(crate) fn open(
        surface: &Surface,
        rung: Rung,
        session: &AbsPath,
        owner: Owner,
        look: &mut dyn Look,
    ) -> io::Result<Self> {
        let mut doors = Self { listeners: Vec::new(), withheld: Vec::new() };
        let wanted = &surface.reach().sockets;
        if !rung.has_way_out() || wanted.is_empty() {
            doors.withheld = unreachable(surface, rung);
            return Ok(doors);
        }
        let dir = session.join(DIRECTORY);
        rustix::fs::mkdir(dir.as_bytes(), Mode::RWXU)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
        for entry in wanted {
            let reason = match look.path(&entry.value) {
                PathFact::Special => {
                    let name = doors.listeners.len().to_string();
                    // The path of a socket has 107 bytes at most; a session's directory may be longer.
                    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
                    net::take_no_descriptors(listener.as_fd())?;
                    let (uid, gid) = owner.unzip();
                    rustix::fs::chownat(&dir, &name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                    // Until now nobody else could go through the directory; inside there is no directory.
                    rustix::fs::chmodat(&dir, &name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
                    doors.listeners.push((listener, entry.value.clone()));
                    continue;
                }
                PathFact::Missing => "no socket is there: whoever listens must start before the session",
                PathFact::File | PathFact::Directory | PathFact::Link(_) => "what is there is no socket",
            };
            doors.withheld.push(withheld(entry, reason));
        }
        Ok(doors)
    }

    /// Each in the place of the host's.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = MountOp> {
        let op = |(number, (_, path)): (usize, &(UnixListener, AbsPath))| MountOp::Own {
            path: path.clone(),
            name: format!("{DIRECTORY}/{number}"),
        };
        self.listeners.iter().enumerate().map(op)
    }

    /// Is this the place of one?
    pub(crate) fn has(&self, path: &AbsPath) -> bool {
        self.listeners.iter().any(|(_, door)| door == path)
    }
}

/// The relay needs a network namespace and a view of our own.
fn unreachable(surface: &Surface, rung: Rung) -> Vec<Withheld> {
    let reach = surface.reach();
    if rung.has_way_out() {
        return Vec::new();
    }
    let reason = "cannot be reached without namespaces of our own";
    let hosts = reach.hosts.iter().map(|entry| withheld(entry, reason));
    let ports = reach.host_ports.iter().map(|entry| Withheld {
        pattern: format!("localhost:{}", entry.value),
        source: entry.source.to_string(),
        reason,
    });
    let sockets = reach.sockets.iter().map(|entry| withheld(entry, reason));
    hosts.chain(ports).chain(sockets).collect()
}

fn withheld<T: std::fmt::Display>(entry: &Sourced<T>, reason: &'static str) -> Withheld {
    Withheld { pattern: entry.value.to_string(), source: entry.source.to_string(), reason }
}
