//! Programs that insist on a proxy: HTTP and SOCKS on one port, told apart by the first byte.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::front::{
    self, Ask, Greeting, HttpRefusal, NOT_FORWARDED, SocksAsk, SocksDialect, SocksOutcome, TUNNEL_STANDS,
};
use crate::http;
use crate::kept::Kept;

/// The longest request that is read. Servers take no longer ones either.
const MOST: usize = 16 * 1024;

/// What a program asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) port: u16,
    manner: Manner,
    /// What it sent beyond its request, or the request itself where that is passed on.
    rest: Vec<u8>,
    _kept: Kept,
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    Tunnel,
    Forward,
    Socks(SocksDialect),
}

impl Asked {
    /// Reads what is asked for. What cannot be read is answered and ends in an error.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let (mut bytes, mut kept) = (Vec::new(), Kept::bytes(0));
        more(stream, &mut bytes, &mut kept).await?;
        if bytes[0].is_ascii_uppercase() {
            Self::read_http(stream, bytes, kept).await
        } else {
            Self::read_socks(stream, bytes, kept).await
        }
    }

    async fn read_http(stream: &mut TcpStream, mut bytes: Vec<u8>, mut kept: Kept) -> io::Result<Self> {
        loop {
            match front::http_proxy(&bytes) {
                Ask::NeedMore => more(stream, &mut bytes, &mut kept).await?,
                Ask::Connect { name, port, consumed } => {
                    let rest = bytes.split_off(consumed);
                    return Ok(Self { name, port, manner: Manner::Tunnel, rest, _kept: kept });
                }
                Ask::Forward { name, port, head } => {
                    let mut rest = http::rewrite(&bytes, &head, &[], NOT_FORWARDED);
                    rest.extend(&bytes[head.end..]);
                    return Ok(Self { name, port, manner: Manner::Forward, rest, _kept: kept });
                }
                Ask::Malformed(why) => {
                    stream.write_all(&HttpRefusal::BadRequest.reply(why)).await?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
        }
    }

    async fn read_socks(stream: &mut TcpStream, mut bytes: Vec<u8>, mut kept: Kept) -> io::Result<Self> {
        let dialect = loop {
            match front::socks_greeting(&bytes) {
                Greeting::NeedMore => more(stream, &mut bytes, &mut kept).await?,
                Greeting::Four => break SocksDialect::Four,
                Greeting::Five { reply, consumed } => {
                    stream.write_all(&reply).await?;
                    bytes.drain(..consumed);
                    break SocksDialect::Five;
                }
                Greeting::Refused { reply } => {
                    stream.write_all(&reply).await?;
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Greeting::Malformed(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        };
        loop {
            match front::socks_request(&bytes) {
                SocksAsk::NeedMore => more(stream, &mut bytes, &mut kept).await?,
                SocksAsk::Connect { name, port, consumed } => {
                    let rest = bytes.split_off(consumed);
                    return Ok(Self { name, port, manner: Manner::Socks(dialect), rest, _kept: kept });
                }
                SocksAsk::Refused(outcome, why) => {
                    stream.write_all(&outcome.reply(dialect)).await?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                SocksAsk::Malformed(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        }
    }

    /// What is said when the connection stands. A request that is passed on is answered by its server.
    pub(crate) fn success(&self) -> Vec<u8> {
        match self.manner {
            Manner::Tunnel => TUNNEL_STANDS.to_vec(),
            Manner::Forward => Vec::new(),
            Manner::Socks(dialect) => SocksOutcome::Succeeded.reply(dialect),
        }
    }

    /// What is said when the policy does not allow it.
    pub(crate) fn refusal(&self) -> Vec<u8> {
        match self.manner {
            Manner::Socks(dialect) => SocksOutcome::NotAllowed.reply(dialect),
            Manner::Tunnel | Manner::Forward => HttpRefusal::Forbidden
                .reply(&format!("ringfence: the policy does not name {}:{}", self.name, self.port)),
        }
    }

    /// What is said when nobody is there.
    pub(crate) fn unreachable(&self) -> Vec<u8> {
        match self.manner {
            Manner::Socks(dialect) => SocksOutcome::HostUnreachable.reply(dialect),
            Manner::Tunnel | Manner::Forward => HttpRefusal::BadGateway.reply("ringfence: the host cannot be reached"),
        }
    }

    /// What goes out first.
    pub(crate) fn rest(self) -> Vec<u8> {
        self.rest
    }
}

/// Reads on; the end comes too early.
async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>, kept: &mut Kept) -> io::Result<()> {
    if bytes.len() > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    match stream.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => kept.begun(bytes.len()).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)),
    }
}
