//! From a name to a connection: resolved once, guarded, and dialled as it was resolved.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ringfence_surface::HostTarget;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::guard::{self, OptIn};
use crate::resolver::Resolver;
use crate::rules::Rules;

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one address is waited for before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    /// Its name leads where it must not.
    #[error("its address {address} is {why}")]
    Guarded {
        /// Where it leads.
        address: IpAddr,
        /// What that is.
        why: &'static str,
    },
    /// Nobody there, or no such name.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// The addresses of a host that may be dialled.
///
/// # Errors
/// When the name has no address, or only such as may not be dialled.
pub(crate) async fn addresses(
    target: &HostTarget,
    rules: &Rules,
    resolver: &dyn Resolver,
) -> Result<Vec<IpAddr>, NoConnection> {
    // An address that the policy spells out is what it says.
    let (found, opt_in) = match target.address() {
        Some(address) => (vec![address], OptIn::Literal),
        None if rules.may_be_private(target) => (resolver.resolve(target.name()).await?, OptIn::PrivateName),
        None => (resolver.resolve(target.name()).await?, OptIn::Silent),
    };
    // Asked for anew: a machine that moves to another network has other addresses.
    let own = ringfence_sys::net::own_addresses();
    let mut refused = None;
    let mut dialled = Vec::new();
    for address in found {
        match guard::refusal(address, &own) {
            Some(why) if !why.yields_to(opt_in) => refused = Some((address, why.reason())),
            _ => dialled.push(address),
        }
    }
    match (dialled.is_empty(), refused) {
        (true, Some((address, why))) => Err(NoConnection::Guarded { address, why }),
        (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address").into()),
        (false, _) => Ok(dialled),
    }
}

/// Connects to the first address that answers, each with a head start before the next.
pub(crate) async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    timeout(PATIENCE, race(interleaved(addresses), port)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn race(addresses: Vec<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut left = addresses.into_iter();
    let mut last: io::Error = io::ErrorKind::NotFound.into();
    loop {
        match left.next() {
            Some(address) => {
                attempts.spawn_local(TcpStream::connect(SocketAddr::new(address, port)));
            }
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let is_last = left.len() == 0;
        tokio::select! {
            Some(done) = attempts.join_next() => match done {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(cause)) => last = cause,
                Err(cause) => last = io::Error::other(cause),
            },
            () = sleep(HEAD_START), if !is_last => {}
        }
    }
}

/// The families in turn, IPv6 first.
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut order = Vec::with_capacity(addresses.len());
    loop {
        match (v6.next(), v4.next()) {
            (None, None) => return order,
            (first, second) => order.extend(first.into_iter().chain(second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = [ip("192.0.2.1"), ip("192.0.2.2"), ip("2001:db8::1"), ip("192.0.2.3")];
        assert_eq!(interleaved(&all), [ip("2001:db8::1"), ip("192.0.2.1"), ip("192.0.2.2"), ip("192.0.2.3")]);
    }
}
