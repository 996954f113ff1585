//! What runs as bubblewrap's payload: ringfence itself, which gives up the rest of its rights and becomes the program.
//!
//! Bubblewrap makes the view and nothing else. What stands in the way of the program's own words, its descriptors, Landlock and
//! the filter is left to us, so that a fence built by bubblewrap differs from our own only in who made the mounts. The orders
//! come in a file that only this process can see.

use std::ffi::{CString, OsString};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_plan::{Fence, SET_IDS, syscalls};
use ringfence_sys::landlock::{AccessFs, Scope};
use ringfence_sys::process::{self, Program, Words};
use ringfence_sys::seccomp;
use rustix::io::Errno;

use crate::bytes::{Reader, Writer};
use crate::payload::{Payload, Pids};
use crate::steps::{ARRIVED, INSIDE, failed, report};
use crate::view::Failed;
use crate::wall::Wall;

/// The name of the hidden command that calls [`run`].
pub const COMMAND: &str = "inside";

/// The orders for a payload, as bytes.
pub(crate) fn orders(payload: &Payload) -> Vec<u8> {
    let mut out = Writer::new();
    out.bytes(payload.workdir.as_bytes());
    let Words { candidates, arguments, environment } = payload.program.words();
    for list in [candidates, arguments, environment] {
        out.number(list.len() as u64);
        list.iter().for_each(|word| out.bytes(word.as_bytes()));
    }
    out.number(u64::from(payload.landlock.is_some()));
    if let Some(wall) = &payload.landlock {
        out.number(wall.handled.bits());
        out.number(wall.scopes.bits());
        out.number(wall.rules.len() as u64);
        for (path, access) in &wall.rules {
            out.bytes(path.as_bytes());
            out.number(access.bits());
        }
    }
    out.number(payload.pids.map_or(0, |pids| pids.most));
    out.number(u64::from(payload.pids.is_some_and(|pids| pids.needs_namespace.is_some())));
    let (uid, gid) = payload.becomes.unwrap_or((0, 0));
    out.number(u64::from(uid));
    out.number(u64::from(gid));
    out.number(u64::from(!payload.refused.is_empty()));
    out.finish()
}

/// Becomes the payload's program. The arguments are the numbers of two descriptors: the orders, and where to report to.
/// Returns only on failure, with the code to end with.
pub fn run(arguments: &[OsString]) -> u8 {
    let fd = |at: usize| {
        let number = arguments.get(at).and_then(|word| word.to_str()).and_then(|word| word.parse().ok());
        number.ok_or(io::Error::from(io::ErrorKind::InvalidInput)).and_then(process::inherited)
    };
    let (Ok(orders), Ok(errors)) = (fd(0), fd(1)) else { return 125 };
    match arrive(orders, &errors) {
        Err(failed) => report(&errors, failed),
        Ok(never) => match never {},
    }
}

fn arrive(orders: OwnedFd, errors: &OwnedFd) -> Result<std::convert::Infallible, Failed> {
    report(errors, Failed { step: ARRIVED, errno: Errno::INTR });
    let mut bytes = Vec::new();
    std::fs::File::from(orders).read_to_end(&mut bytes).map_err(|e| failed(INSIDE, &e))?;
    let payload = read(&bytes).ok_or(Failed { step: INSIDE, errno: Errno::INVAL })?;
    rustix::io::fcntl_setfd(errors.as_fd(), rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| Failed { step: INSIDE, errno })?;
    payload.once_seated(None, None)
}

/// The payload that orders describe.
pub(crate) fn read(bytes: &[u8]) -> Option<Payload> {
    let mut input = Orders(Reader::new(bytes));
    let workdir = input.string()?;
    let words = Words { candidates: input.strings()?, arguments: input.strings()?, environment: input.strings()? };
    let landlock = if input.number()? == 1 { Some(input.wall()?) } else { None };
    let (most, is_separate) = (input.number()?, input.number()? == 1);
    let (uid, gid) = (u32::try_from(input.number()?).ok()?, u32::try_from(input.number()?).ok()?);
    // Nobody becomes root.
    let becomes = (uid != 0).then_some((uid, gid));
    let needs_namespace = becomes.filter(|_| is_separate);
    let pids = (most != 0).then_some(Pids { most, needs_namespace });
    let refused = if input.number()? == 0 { &[] } else { SET_IDS };
    let seccomp = seccomp::compile(&[syscalls(Fence::Namespaces).as_slice(), refused].concat()).ok()?.program;
    input.0.is_done().then_some(Payload {
        workdir,
        program: Program::new(words),
        landlock,
        seccomp,
        refused,
        pids,
        becomes,
        root: None,
    })
}

struct Orders<'a>(Reader<'a>);

impl Orders<'_> {
    fn number(&mut self) -> Option<u64> {
        self.0.number()
    }

    fn string(&mut self) -> Option<CString> {
        CString::new(self.0.bytes()?).ok()
    }

    fn strings(&mut self) -> Option<Vec<CString>> {
        (0..self.number()?).map(|_| self.string()).collect()
    }

    fn wall(&mut self) -> Option<Wall> {
        let (handled, scopes) = (AccessFs::from_bits(self.number()?), Scope::from_bits(self.number()?));
        let rule = |input: &mut Self| Some((input.string()?, AccessFs::from_bits(input.number()?)));
        let rules = (0..self.number()?).map(|_| rule(self)).collect::<Option<Vec<_>>>()?;
        Some(Wall { handled, rules, scopes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<CString> {
        list.iter().map(|word| CString::new(*word).unwrap()).collect()
    }

    fn payload() -> Payload {
        let words = Words {
            candidates: words(&["/usr/bin/a", "/bin/a"]),
            arguments: words(&["a", "", "-x"]),
            environment: words(&["HOME=/h"]),
        };
        Payload {
            workdir: c"/w".into(),
            program: Program::new(words),
            landlock: Some(Wall {
                handled: AccessFs::from_bits(0xff),
                rules: vec![(c"/w".into(), AccessFs::READ_DIR)],
                scopes: Scope::SIGNAL,
            }),
            seccomp: seccomp::compile(&syscalls(Fence::Namespaces)).unwrap().program,
            refused: SET_IDS,
            pids: Some(Pids { most: 12, needs_namespace: Some((7, 8)) }),
            becomes: Some((7, 8)),
            root: None,
        }
    }

    #[test]
    fn orders_arrive_as_they_were_given() {
        let (given, arrived) = (payload(), read(&orders(&payload())).unwrap());
        assert_eq!(arrived.workdir, given.workdir);
        assert_eq!(arrived.program.words(), given.program.words());
        assert_eq!((arrived.landlock, arrived.pids), (given.landlock, given.pids));
        assert_eq!((arrived.becomes, arrived.refused), (given.becomes, given.refused));
    }

    /// A fence that is half described is none.
    #[test]
    fn cut_or_longer_orders_are_refused() {
        let whole = orders(&payload());
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_none(), "{length} bytes");
        }
        assert!(read(&[whole.as_slice(), b"x"].concat()).is_none());
    }
}
