//! From a name to a connection: resolved once, guarded, and dialled as it was resolved.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringfence_surface::HostTarget;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::buffers::Share;
use crate::guard::{self, AddressClass, OptIn};
use crate::refusals::Why;
use crate::resolver::Resolver;

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one address is waited for before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    /// Its name leads where it must not.
    #[error("its address {address} is {class}")]
    Guarded {
        /// Where it leads.
        address: IpAddr,
        /// What that is.
        class: AddressClass,
    },
    /// Nobody there, or no such name.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl From<&NoConnection> for Why {
    fn from(cause: &NoConnection) -> Self {
        match cause {
            NoConnection::Guarded { address, class } => Self::Guarded { address: *address, class: *class },
            NoConnection::Failed(cause) => Self::Failed(cause.to_string()),
        }
    }
}

/// The addresses of a host that may be dialled.
///
/// # Errors
/// When the name has no address, or only such as may not be dialled.
pub(crate) async fn addresses(
    target: &HostTarget,
    opt_in: OptIn,
    resolver: &dyn Resolver,
) -> Result<Vec<IpAddr>, NoConnection> {
    let found = match target.address() {
        Some(address) => vec![address],
        None => resolver.resolve(target.name()).await?,
    };
    let own = own_addresses();
    let mut refused = None;
    let mut dialled = Vec::new();
    for address in found {
        match guard::refusal(address, &own) {
            Some(class) if !class.is_opened_by(opt_in) => refused = Some((address, class)),
            _ => dialled.push(address),
        }
    }
    match (dialled.is_empty(), refused) {
        (true, Some((address, class))) => Err(NoConnection::Guarded { address, class }),
        (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address").into()),
        (false, _) => Ok(dialled),
    }
}

/// How long the machine's own addresses are taken to be the same: one that moves to another network has others.
const AT_REST: Duration = Duration::from_secs(1);

thread_local! {
    static OWN: RefCell<Option<(Instant, Rc<[IpAddr]>)>> = const { RefCell::new(None) };
}

/// The machine's own addresses. To ask for them costs as much as to connect.
fn own_addresses() -> Rc<[IpAddr]> {
    OWN.with_borrow_mut(|known| match known {
        Some((at, own)) if at.elapsed() < AT_REST => Rc::clone(own),
        _ => {
            let own: Rc<[IpAddr]> = ringfence_sys::net::own_addresses().into();
            *known = Some((Instant::now(), Rc::clone(&own)));
            own
        }
    })
}

/// Connects to the first address that answers, each with a head start before the next. The families take turns.
///
/// # Errors
/// When no host answers, or this machine does and must not: a route may make more addresses its own than its interfaces have.
pub(crate) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    opt_in: OptIn,
    share: Share,
) -> Result<TcpStream, NoConnection> {
    let stream = in_order(interleaved(addresses), port, share).await?;
    let (here, there) = (stream.local_addr()?.ip(), stream.peer_addr()?.ip());
    let class = AddressClass::ThisMachine;
    if here == there && !class.is_opened_by(opt_in) {
        return Err(NoConnection::Guarded { address: there, class });
    }
    Ok(stream)
}

/// The same in the order that they have.
pub(crate) async fn in_order(addresses: Vec<IpAddr>, port: u16, share: Share) -> io::Result<TcpStream> {
    timeout(PATIENCE, race(addresses, port, share)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn to(address: SocketAddr, share: Share) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    share.of_connecting(&socket)?;
    socket.connect(address).await
}

async fn race(addresses: Vec<IpAddr>, port: u16, share: Share) -> io::Result<TcpStream> {
    let mut left = addresses.into_iter().map(|address| SocketAddr::new(address, port));
    let Some(first) = left.next() else { return Err(io::ErrorKind::NotFound.into()) };
    // Most names have one, and nobody to race with.
    if left.len() == 0 {
        return to(first, share).await;
    }
    // Of the others most are answered in time.
    let (mut attempts, mut first) = (JoinSet::new(), Box::pin(to(first, share)));
    let mut last = match timeout(HEAD_START, &mut first).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(cause)) => cause,
        Err(_) => {
            attempts.spawn_local(first);
            io::ErrorKind::TimedOut.into()
        }
    };
    loop {
        match left.next() {
            Some(address) => {
                attempts.spawn_local(Box::pin(to(address, share)));
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
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// One port at both addresses that nobody else gets. Nobody listens there.
    fn port() -> (TcpSocket, TcpSocket, u16) {
        loop {
            let (v4, v6) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v6().unwrap());
            v6.bind((Ipv6Addr::LOCALHOST, 0).into()).unwrap();
            let port = v6.local_addr().unwrap().port();
            // Somebody of this machine may have the same one at the other.
            if v4.bind((Ipv4Addr::LOCALHOST, port).into()).is_ok() {
                return (v4, v6, port);
            }
        }
    }

    /// Nobody listens at the first address; the second is tried at once, and both are tried in the order they have.
    #[tokio::test(flavor = "current_thread")]
    async fn the_next_is_tried_when_one_refuses() {
        let (_nobody, somebody, port) = port();
        let _listener = somebody.listen(1024).unwrap();
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        for order in [vec![v4, v6], vec![v6, v4]] {
            let mut took = Vec::new();
            // Whoever waits does so each time. One may take long on a machine that does other things too.
            while took.last().is_none_or(|last| *last >= HEAD_START) && took.len() < 100 {
                let begun = Instant::now();
                let to =
                    tokio::task::LocalSet::new().run_until(in_order(order.clone(), port, Share::WHOLE)).await.unwrap();
                assert_eq!(to.peer_addr().unwrap().ip(), v6);
                took.push(begun.elapsed());
            }
            assert!(took.last().is_some_and(|last| *last < HEAD_START), "{took:?}");
        }
    }

    /// F3: an address that no interface has may be the machine's own all the same.
    #[tokio::test(flavor = "current_thread")]
    async fn f3_a_connection_to_this_machine_is_given_up() {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (own, port) = (IpAddr::V4(Ipv4Addr::LOCALHOST), listener.local_addr().unwrap().port());
        for opt_in in [OptIn::Silent, OptIn::PrivateName, OptIn::Network] {
            let why = connect(&[own], port, opt_in, Share::WHOLE).await.unwrap_err();
            assert!(matches!(why, NoConnection::Guarded { class: AddressClass::ThisMachine, .. }), "{why}");
        }
        assert!(connect(&[own], port, OptIn::Literal, Share::WHOLE).await.is_ok());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nobody_is_there() {
        let (_v4, _v6, port) = port();
        let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let nobody = tokio::task::LocalSet::new().run_until(in_order(addresses, port, Share::WHOLE)).await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn families_take_turns() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = [ip("192.0.2.1"), ip("192.0.2.2"), ip("2001:db8::1"), ip("192.0.2.3")];
        assert_eq!(interleaved(&all), [ip("2001:db8::1"), ip("192.0.2.1"), ip("192.0.2.2"), ip("192.0.2.3")]);
    }
}
