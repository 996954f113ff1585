//! Bounds the kernel's memory for data that was sent and not read yet.
//!
//! It is charged to the user who started the session, and no limit of the session bounds it. Left to itself the kernel gives each socket
//! up to several MiB, in both directions, so a program that opens as many connections as it can, and reads none of them, would
//! take gigabytes. So the first connections keep the kernel's defaults, since a single download from far away needs large
//! buffers, and each further one gets less the more there are.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

/// How much one socket keeps in each direction; the kernel doubles it for what it needs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(Option<usize>);

/// With at least so many other connections, a new one has this share. The kernel caps an explicit size at `rmem_max` and
/// `wmem_max`, by default the largest of these.
const SHARES: [(usize, usize); 4] = [(1_024, 8 << 10), (256, 16 << 10), (64, 32 << 10), (4, MOST)];
const MOST: usize = 208 << 10;

impl Share {
    /// What the kernel gives.
    #[cfg(test)]
    pub(crate) const WHOLE: Self = Self(None);

    /// What a connection gets beside so many others.
    pub(crate) fn beside(others: usize) -> Self {
        Self(SHARES.iter().find(|(count, _)| others >= *count).map(|(_, share)| *share))
    }

    /// Of a socket that is about to connect: the window that it offers is as small from the start, and nothing that was sent has to be
    /// dropped.
    pub(crate) fn of_connecting(self, socket: impl AsFd) -> io::Result<()> {
        let Some(share) = self.0 else { return Ok(()) };
        set_socket_recv_buffer_size(&socket, share)?;
        Ok(set_socket_send_buffer_size(&socket, share)?)
    }

    /// Of a socket that was accepted: it has offered a window already, which only shrinks with what arrives.
    pub(crate) fn of_accepted(self, socket: impl AsFd) -> io::Result<()> {
        // What is sent inside does not travel far.
        set_socket_send_buffer_size(&socket, self.0.unwrap_or(MOST))?;
        let Some(share) = self.0 else { return Ok(()) };
        ringfence_sys::net::limit_window(socket.as_fd(), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_all_together_is_bounded() {
        assert_eq!((Share::beside(0), Share::beside(3)), (Share::WHOLE, Share::WHOLE));
        assert_eq!((Share::beside(4), Share::beside(64)), (Share(Some(MOST)), Share(Some(32 << 10))));
        // Both sockets of a connection, both directions, twice for what the kernel needs itself.
        let most: usize = (4..4_096).filter_map(|others| Share::beside(others).0).map(|share| share * 8).sum();
        assert!(most <= 448 << 20, "{most}");
    }
}
