//! What the first process of a container is told.

use std::net::SocketAddr;

use ringfence_plan::{MountAccess, Programs};
use ringfence_surface::AbsPath;
use ringfence_sys::process;
use ringfence_sys::pty::{Seat, Seats};
use rustix::process::{Resource, Rlimit};

use super::check::{Check, Expected};
use crate::bytes::{Reader, Writer};
use crate::inside;
use crate::payload::Payload;
use crate::place::Id;

/// Everything that it must know.
pub(crate) struct Orders<'a> {
    pub(crate) checks: &'a [Check],
    pub(crate) user: u32,
    pub(crate) programs: Programs,
    /// Which descriptors a terminal replaces, where there is one.
    pub(crate) seats: Option<Seats>,
    /// Where it listens from the start, where there is a way out.
    pub(crate) listeners: Option<&'a [SocketAddr]>,
    pub(crate) payload: &'a Payload,
}

/// The same, as it arrives.
pub(super) struct Arrived {
    pub(super) checks: Vec<Check>,
    pub(super) user: u32,
    pub(super) programs: Programs,
    pub(super) seats: Option<Seats>,
    pub(super) listeners: Option<Vec<SocketAddr>>,
    /// The caller's mask of new files, and limits.
    pub(super) mask: u32,
    pub(super) limits: Vec<(Resource, Rlimit)>,
    pub(super) payload: Payload,
}

impl Orders<'_> {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.number(self.checks.len() as u64);
        for check in self.checks {
            out.bytes(check.path.as_bytes());
            match check.expected {
                Expected::Memory => out.number(0),
                Expected::Host { id, access } => {
                    out.number(if access == MountAccess::ReadOnly { 1 } else { 2 });
                    let (device, inode) = id.numbers();
                    out.number(device);
                    out.number(inode);
                }
            }
        }
        out.number(u64::from(self.user));
        out.number(u64::from(self.programs == Programs::Image));
        out.number(u64::from(self.seats.is_some()));
        if let Some(Seats { stdin, stdout, stderr }) = self.seats {
            [stdin, stdout, stderr].iter().for_each(|seat| out.number(u64::from(*seat == Seat::Terminal)));
        }
        out.number(self.listeners.map_or(0, |list| list.len() as u64 + 1));
        for address in self.listeners.into_iter().flatten() {
            out.bytes(address.to_string().as_bytes());
        }
        out.number(u64::from(process::callers_umask().as_raw_mode()));
        for resource in LIMITS {
            // One that cannot be read is not passed on, and the container's own holds.
            let limit = process::getrlimit(resource).unwrap_or(Rlimit { current: None, maximum: None });
            out.number(limit.current.map_or(0, |most| most.saturating_add(1)));
            out.number(limit.maximum.map_or(0, |most| most.saturating_add(1)));
        }
        out.bytes(&inside::orders(self.payload));
        out.finish()
    }
}

impl Arrived {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let checks = (0..input.number()?).map(|_| check(&mut input)).collect::<Option<Vec<_>>>()?;
        let user = u32::try_from(input.number()?).ok()?;
        let programs = if input.number()? == 1 { Programs::Image } else { Programs::Host };
        let seats = if input.number()? == 1 { Some(seats(&mut input)?) } else { None };
        let listeners = match input.number()? {
            0 => None,
            count => Some((1..count).map(|_| address(&mut input)).collect::<Option<Vec<_>>>()?),
        };
        let mask = u32::try_from(input.number()?).ok()?;
        let limits = LIMITS
            .map(|resource| Some((resource, Rlimit { current: limit(&mut input)?, maximum: limit(&mut input)? })));
        let limits = limits.into_iter().collect::<Option<Vec<_>>>()?;
        let payload = inside::read(input.bytes()?)?;
        input.is_done().then_some(Self { checks, user, programs, seats, listeners, mask, limits, payload })
    }
}

/// Limits that go along: what the caller has less of, the container has no more of.
const LIMITS: [Resource; 7] =
    [Resource::As, Resource::Core, Resource::Cpu, Resource::Data, Resource::Fsize, Resource::Nofile, Resource::Stack];

/// A limit; nothing for none.
fn limit(input: &mut Reader<'_>) -> Option<Option<u64>> {
    Some(input.number()?.checked_sub(1))
}

fn check(input: &mut Reader<'_>) -> Option<Check> {
    let path = AbsPath::lexical(input.bytes()?).ok()?;
    let access = match input.number()? {
        0 => return Some(Check { path, expected: Expected::Memory }),
        1 => MountAccess::ReadOnly,
        _ => MountAccess::ReadWrite,
    };
    let id = Id::from_numbers((input.number()?, input.number()?));
    Some(Check { path, expected: Expected::Host { id, access } })
}

fn seats(input: &mut Reader<'_>) -> Option<Seats> {
    let mut seat = || Some(if input.number()? == 1 { Seat::Terminal } else { Seat::Kept });
    Some(Seats { stdin: seat()?, stdout: seat()?, stderr: seat()? })
}

fn address(input: &mut Reader<'_>) -> Option<SocketAddr> {
    std::str::from_utf8(input.bytes()?).ok()?.parse().ok()
}
