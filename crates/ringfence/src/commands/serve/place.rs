//! Where a server says how it is reached: `serve/` in ringfence's state, which only its owner can enter.
//!
//! `token` is made anew at each start, whole or not at all; `address` has the URL, `socket` is the unix socket. They go when the
//! server ends. Only one serves at a time: it holds the lock of the directory.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use ringfence_session::text::new_token;
use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::error::Failure;
use crate::host::os_path;

const TOKEN: &str = "token";
const ADDRESS: &str = "address";
const SOCKET: &str = "socket";

/// A server's place. What others find there goes with the value.
#[derive(Debug)]
pub(super) struct Place {
    dir: AbsPath,
    /// The directory, locked.
    lock: OwnedFd,
    pub(super) token: String,
}

impl Place {
    /// Takes it, with a new token. What a killed server left is replaced.
    pub(super) fn take(state: &AbsPath) -> Result<Self, Failure> {
        let dir = state.join("serve");
        let failed = |source: io::Error| Failure::Write { path: os_path(&dir).into(), source };
        // Those who work for root go through its state to what is theirs, and not into this.
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(os_path(state)).map_err(failed)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(&dir)).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(dir.as_bytes(), flags, Mode::empty());
        let lock = open().map_err(|errno| failed(errno.into()))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let address = fs::read_to_string(os_path(&dir.join(ADDRESS))).unwrap_or_default();
            return Err(Failure::Served { address: address.trim().to_owned() });
        }
        // Whoever made it, nobody else goes in.
        rustix::fs::fchmod(&lock, Mode::RWXU).map_err(|errno| failed(errno.into()))?;
        let token = new_token().map_err(failed)?;
        let place = Self { dir: dir.clone(), lock, token };
        place.keep(TOKEN, &place.token).map_err(failed)?;
        Ok(place)
    }

    /// Writes a file, whole or not at all, that only its owner can read.
    fn keep(&self, name: &str, content: &str) -> io::Result<()> {
        let new = self.dir.join(&format!("{name}.new"));
        let _ = fs::remove_file(os_path(&new));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(os_path(&new))?;
        io::Write::write_all(&mut file, content.as_bytes())?;
        fs::rename(os_path(&new), os_path(&self.dir.join(name)))
    }

    /// Listens on loopback, and says where.
    pub(super) fn loopback(&self, port: u16) -> Result<(TcpListener, u16), Failure> {
        let failed = |source| Failure::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        self.keep(ADDRESS, &format!("http://127.0.0.1:{port}\n")).map_err(failed)?;
        Ok((listener, port))
    }

    /// Listens on the unix socket.
    pub(super) fn socket(&self) -> Result<UnixListener, Failure> {
        let socket = self.dir.join(SOCKET);
        let listen = || {
            let _ = fs::remove_file(os_path(&socket));
            // By a descriptor: the path may be longer than an address can be.
            let path = format!("/proc/self/fd/{}/{SOCKET}", self.lock.as_raw_fd());
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        listen().map_err(|source| Failure::Write { path: os_path(&socket).into(), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in [TOKEN, ADDRESS, SOCKET] {
            // What is not there any more needs no removing.
            let _ = fs::remove_file(os_path(&self.dir.join(name)));
        }
    }
}
