//! Questions about names, by UDP and by TCP. One about a name that somebody may still allow waits until that is decided.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

use ringfence_surface::HostTarget;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{Duration, timeout};

use crate::dns::{self, Kind, Question};
use crate::service::{Shared, accepted};

/// The longest question that is read. Ones in good faith are much shorter, also with what fills them up.
const MOST: usize = 4096;

impl Shared {
    /// May somebody still allow this name, whom one could ask?
    fn is_askable(&self, question: &Question) -> bool {
        let is_local = question.name == "localhost" || question.name.ends_with(".localhost");
        // Of a name without a dot nobody can say whom it means.
        let is_host = question.name.contains('.') && HostTarget::new(&question.name, 443).is_ok();
        matches!(question.kind, Kind::A | Kind::Aaaa)
            && is_host
            && !is_local
            && self.rules.borrow().ports_of(&question.name).is_empty()
    }
}

/// Answers what is asked by UDP.
pub(crate) async fn answer_datagrams(shared: Rc<Shared>, socket: OwnedFd) {
    let Ok(socket) = UdpSocket::from_std(socket.into()).map(Rc::new) else { return };
    let mut buffer = [0; MOST];
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        let receive = || ringfence_sys::net::receive(socket.as_fd(), &mut buffer);
        // One that cannot be read is not answered.
        let Ok(datagram) = socket.try_io(Interest::READABLE, receive) else { continue };
        let reply = match dns::parse_query(&buffer[..datagram.length]) {
            Ok(question) if shared.asks.is_on() && shared.is_askable(&question) => {
                let (shared, socket) = (Rc::clone(&shared), Rc::clone(&socket));
                // Others are answered meanwhile.
                tokio::task::spawn_local(async move {
                    shared.asks.wait(&question.name).await;
                    let _ = ringfence_sys::net::answer(socket.as_fd(), &shared.answer(&question), datagram);
                });
                continue;
            }
            Ok(question) => Some(shared.answer(&question)),
            Err(bad) => bad.reply,
        };
        if let Some(reply) = reply {
            // Whoever asked and does not take the answer asks again.
            let _ = ringfence_sys::net::answer(socket.as_fd(), &reply, datagram);
        }
    }
}

/// Answers what is asked by TCP.
pub(crate) async fn answer_streams(shared: Rc<Shared>, listener: OwnedFd) {
    let Ok(listener) = TcpListener::from_std(listener.into()) else { return };
    loop {
        let Some(stream) = accepted(&listener, &shared).await else { continue };
        let shared = Rc::clone(&shared);
        let Some(permit) = shared.permit() else { continue };
        tokio::task::spawn_local(async move {
            let _permit = permit;
            // A name that takes longer than this to be asked for is not wanted.
            let _ = timeout(Duration::from_secs(10), answer_stream(&shared, stream)).await;
        });
    }
}

async fn answer_stream(shared: &Rc<Shared>, mut stream: TcpStream) -> io::Result<()> {
    loop {
        let length = usize::from(stream.read_u16().await?);
        // The memory is the supervisor's, for as many at once as there are connections.
        if length > MOST {
            return Ok(());
        }
        let mut query = vec![0; length];
        stream.read_exact(&mut query).await?;
        let reply = match dns::parse_query(&query) {
            Ok(question) => {
                if shared.asks.is_on() && shared.is_askable(&question) {
                    shared.asks.wait(&question.name).await;
                }
                Some(shared.answer(&question))
            }
            Err(bad) => bad.reply,
        };
        let Some(reply) = reply else { return Ok(()) };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), reply.as_slice()].concat()).await?;
    }
}
