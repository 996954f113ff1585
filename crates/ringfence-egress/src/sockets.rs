//! Unix sockets of the host that have one of ours in their place.

use std::io;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;

use ringfence_surface::AbsPath;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Duration, sleep};

use crate::refusals::{Attempt, Why};
use crate::relay::{Stream, relay};
use crate::service::Shared;

/// Takes what arrives at a socket of ours, and carries it to the host's.
pub(crate) async fn accept(shared: Rc<Shared>, listener: std::os::unix::net::UnixListener, path: AbsPath) {
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let Ok(listener) = listener else { return };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(cause) => {
                shared.refusals.note(Attempt::Socket(path.clone()), Why::Failed(cause.to_string()));
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Some(permit) = shared.permit() else { continue };
        let (shared, path) = (Rc::clone(&shared), path.clone());
        tokio::task::spawn_local(async move {
            let _permit = permit;
            match connect_unix(&path).await {
                Ok(outside) => {
                    shared.reached.note(format!("socket {path}"));
                    drop(relay(&Stream::Unix(stream), &Stream::Unix(outside), None, &[], std::future::pending()).await)
                }
                Err(cause) => shared.refusals.note(Attempt::Socket(path.clone()), Why::Failed(cause.to_string())),
            }
        });
    }
}

/// Connects to a socket of the host. The agent may be able to put a link in its place, or in that of a directory above it: none
/// is followed.
async fn connect_unix(path: &AbsPath) -> io::Result<UnixStream> {
    let below = path.as_bytes().strip_prefix(b"/").unwrap_or_default();
    let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(&root, below, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    UnixStream::connect(format!("/proc/self/fd/{}", place.as_raw_fd())).await
}
