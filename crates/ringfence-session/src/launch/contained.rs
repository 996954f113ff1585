//! The start of a container: its engine makes the new process, which calls back and is handed what others inherit.

use std::os::fd::OwnedFd;

use ringfence_surface::Shown;

use super::{Begun, Control, Network, Prepared, Shape, StartError, Unreaped, before, pipe};
use crate::container::{Contained, Orders, hand_over};
use crate::first::{Ends, Seat};
use crate::terminal::{LastResort, Lifeline};

impl Prepared {
    /// Has an engine make the new process, and hands it what others inherit.
    pub(super) fn begin_contained(
        self,
        seat: Seat<'_>,
        streams: [OwnedFd; 3],
        (alive, alive_write): (OwnedFd, OwnedFd),
    ) -> Result<Begun<Control>, StartError> {
        let Shape::Container(contained) = &self.shape else { return Err(StartError::Bubblewrap) };
        let (signal_read, signal) = pipe().map_err(before("pipe2"))?;
        rustix::io::ioctl_fionbio(&signal_read, true).map_err(|errno| before("ioctl(FIONBIO)")(errno.into()))?;
        let (errors_read, errors) = self.reports;
        let (outwards, control, ways) = match self.network {
            Some(Network { rules, addresses, sockets, channel: (outside, inside) }) => {
                (Some((rules, addresses, sockets)), Some(outside), Some(inside))
            }
            None => (None, None, None),
        };
        let listeners = outwards.as_ref().map(|(rules, addresses, _)| rules.listeners(*addresses)).unwrap_or_default();
        let child = contained.start().map_err(|source| StartError::Clone { source })?;
        let lifeline = Lifeline::new(alive_write);
        let unreaped = Unreaped {
            child,
            lifeline,
            last_resort: LastResort::Kill,
            code: None,
            signal: signal_read,
            says_code: true,
        };
        let called = contained.called(&unreaped.child).map_err(before("waiting for the container"))?;
        let Some(called) = called else {
            // It may still be about to: whoever calls then finds nobody and ends.
            let _ = rustix::process::pidfd_send_signal(&unreaped.child.pidfd, rustix::process::Signal::KILL);
            return Err(StartError::Engine { engine: contained.engine, said: said(contained) });
        };
        let (seat, seats) = match seat {
            Seat::ToBeMade(inside, seats) => (Some(inside), Some(seats)),
            Seat::None | Seat::Made(..) => (None, None),
        };
        let orders = Orders {
            checks: &contained.checks,
            user: contained.user,
            programs: contained.programs,
            seats,
            listeners: control.is_some().then_some(listeners.as_slice()),
            payload: &self.payload,
        };
        let ends = Ends { errors, alive, ways, signal, broker: None };
        hand_over(&called, &orders, ends, (self.lock, streams, seat)).map_err(before("calling the container"))?;
        let ways = control.map(|control| Control { control, listeners });
        let (made, program) = ((self.shape, self.payload), self.program_name);
        let called = Some(called);
        let (group, said, journal) = (self.group, None, None);
        Ok(Begun { unreaped, errors: errors_read, made, program, group, ways, outwards, called, said, journal })
    }
}

/// Who called: the first process of the container, as this namespace knows it. It lives as long as it holds its end.
pub(super) fn caller(called: &OwnedFd) -> Option<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(called).ok()?;
    rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty()).ok()
}

/// What an engine said, in one line.
pub(super) fn said(contained: &Contained) -> String {
    let said = contained.said();
    let lines = said.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<String> = lines.map(|line| Shown(line.trim_ascii()).to_string()).collect();
    if lines.is_empty() { "it says nothing".to_owned() } else { lines.join("; ") }
}
