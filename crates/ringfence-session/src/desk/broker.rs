//! What the broker refused, as events: each path and rule once.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::RecvFlags;

use crate::audit::What;
use crate::broker::wire::{LONGEST, Said};

use super::Desk;
use super::clients::BROKER;

/// So many packets in a turn: there are other things to look after.
const MOST_PACKETS: usize = 64;
/// More kinds are not told apart.
const MOST_KINDS: usize = 1_000;

impl Desk {
    /// Listens to the broker.
    pub(crate) fn take_broker(&mut self, broker: OwnedFd) -> io::Result<()> {
        self.clients.watch(broker.as_fd(), BROKER)?;
        self.broker = Some(broker);
        Ok(())
    }

    /// What the broker has said since it was last asked.
    pub(super) fn broker_said(&mut self) {
        let mut packet = vec![0; LONGEST];
        for _ in 0..MOST_PACKETS {
            let Some(broker) = &self.broker else { return };
            let length = match rustix::net::recv(broker, packet.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.clients.forget(broker.as_fd());
                    self.broker = None;
                    return;
                }
                Ok((length, _)) => length,
                Err(_) => return,
            };
            if let Some(Said::Refused(report)) = Said::decode(&packet[..length]) {
                let is_new = self.told_by_broker.len() < MOST_KINDS
                    && self.told_by_broker.insert((report.path.clone(), report.rule.clone()));
                if is_new {
                    let tried = format!("{} {}", report.access, report.path);
                    self.note(What::Violation { tried, why: report.rule, times: 1 });
                }
            }
        }
    }
}
