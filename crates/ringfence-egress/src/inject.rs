//! Credentials that are added on the way out: inside, a program speaks plain HTTP and holds a placeholder; outside, each of its
//! requests has the real header and goes over TLS.
//!
//! The secret goes into heads that are checked to be for its host, and nowhere else. What the host answers is not looked at: a
//! host that repeats its requests gives the secret away, as it would to any client.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ringfence_surface::policy::FRAMING;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsConnector, rustls};

use crate::http::{Body, BodyScan, Form, HTTP2_OFFER, Head, HeadReader, HeadResult, Upgrade, is_header_value, rewrite};
use crate::kept::Kept;

/// Where programs inside speak plainly.
pub(crate) const PLAIN: u16 = 80;
/// Where it goes.
pub(crate) const SECURE: u16 = 443;
/// How long nothing may happen.
const IDLE: Duration = Duration::from_secs(3_600);
/// How long an answer may take to end once nothing more is asked.
const LAST_ANSWER: Duration = Duration::from_secs(300);
/// How long the host may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 16 * 1024;

/// A header that is added for one host.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    host: String,
    header: String,
    value: Vec<u8>,
}

impl Credential {
    /// `host` in lower case without a trailing dot. `None` where the value or the name cannot stand in a head, or the header
    /// has a part in how a request is read.
    #[must_use]
    pub fn new(host: &str, header: &str, value: Vec<u8>) -> Option<Self> {
        let is_framing = FRAMING.iter().any(|name| header.eq_ignore_ascii_case(name));
        let is_name = !header.is_empty() && header.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        let is_good = is_name && !is_framing && !value.is_empty() && is_header_value(&value);
        is_good.then(|| Self { host: host.to_owned(), header: header.to_owned(), value })
    }

    /// The host that gets it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// The value is not shown.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("host", &self.host).field("header", &self.header).finish_non_exhaustive()
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        self.value.fill(0);
        // Otherwise nobody would read the zeros, and they need not be written.
        std::hint::black_box(&self.value);
    }
}

/// Why a request was not passed on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotInjected {
    /// It is not a request for the host that the credential is for.
    #[error("{0}")]
    Refused(&'static str),
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] io::Error),
}

/// Speaks TLS to hosts that the system's own certificates vouch for.
#[derive(Debug)]
pub(crate) struct Outward {
    /// Made when it is needed first: it reads a hundred certificates.
    config: OnceCell<Arc<ClientConfig>>,
}

impl Outward {
    pub(crate) fn new() -> Self {
        Self { config: OnceCell::new() }
    }

    /// Trusts these instead of the system's.
    #[cfg(test)]
    fn trusting(roots: RootCertStore) -> io::Result<Self> {
        Ok(Self { config: OnceCell::from(config(roots)?) })
    }

    /// The handshake on a connection.
    ///
    /// # Errors
    /// When the host cannot show who it is.
    pub(crate) async fn secure<S>(&self, stream: S, host: &str) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => {
                let made = config(system_roots())?;
                Arc::clone(self.config.get_or_init(|| made))
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        timeout(HANDSHAKE, TlsConnector::from(config).connect(name, stream)).await?
    }
}

/// A certificate that cannot be read vouches for nobody; without any, no handshake succeeds.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn config(roots: RootCertStore) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // Further requests could not be read in any other.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Carries requests from inside to a host, each with the credential, and answers back. `first` was read already.
///
/// # Errors
/// Why it ended early; everything up to the request in question was passed on.
pub(crate) async fn carry<I, O>(inside: I, outside: O, credential: &Credential, first: &[u8]) -> Result<(), NotInjected>
where
    I: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (mut from_inside, mut to_inside) = tokio::io::split(inside);
    let (mut from_outside, mut to_outside) = tokio::io::split(outside);
    let asked = async {
        let ended = ask(&mut from_inside, &mut to_outside, credential, first).await;
        // Whoever says no more still waits for the last answer. The host is not told: many take the end of what they are
        // asked for the end of everything.
        ended.map(|()| tokio::time::sleep(LAST_ANSWER))
    };
    let answered = async {
        let mut buffer = vec![0; AT_ONCE];
        loop {
            let count = timeout(IDLE, from_outside.read(&mut buffer)).await.map_err(io::Error::from)??;
            if count == 0 {
                return to_inside.shutdown().await;
            }
            to_inside.write_all(&buffer[..count]).await?;
        }
    };
    tokio::pin!(answered);
    let refused = tokio::select! {
        ended = &mut answered => return Ok(ended?),
        asked = asked => match asked {
            Ok(patience) => tokio::select! {
                ended = &mut answered => return Ok(ended?),
                () = patience => return Ok(()),
            },
            Err(refused) => refused,
        },
    };
    Err(refused)
}

/// Passes requests on until there are no more.
async fn ask<I, O>(inside: &mut I, outside: &mut O, credential: &Credential, first: &[u8]) -> Result<(), NotInjected>
where
    I: AsyncRead + Unpin,
    O: AsyncWrite + Unpin,
{
    let mut bytes = first.to_vec();
    loop {
        let Some(head) = next_head(inside, &mut bytes).await? else { return Ok(()) };
        check(&head, credential)?;
        let offer = if head.upgrade == Upgrade::None { &[][..] } else { HTTP2_OFFER };
        let set = [("Host", credential.host.as_bytes()), (credential.header.as_str(), credential.value.as_slice())];
        let mut rewritten = rewrite(&bytes, &head, &set, offer);
        let sent = outside.write_all(&rewritten).await;
        rewritten.fill(0);
        sent?;
        bytes.drain(..head.end);
        let mut body = BodyScan::new(head.length);
        loop {
            let count = body.take(&bytes).map_err(NotInjected::Refused)?;
            outside.write_all(&bytes[..count]).await?;
            bytes.drain(..count);
            if body.is_done() {
                break;
            }
            if more(inside, &mut bytes).await? == 0 {
                return Err(NotInjected::Refused("a body that ends early"));
            }
        }
        outside.flush().await?;
    }
}

/// The head at the start of what arrives; `None` where nothing more does.
async fn next_head<I: AsyncRead + Unpin>(inside: &mut I, bytes: &mut Vec<u8>) -> Result<Option<Head>, NotInjected> {
    let (mut reader, mut kept) = (HeadReader::new(), Kept::bytes(0));
    loop {
        match reader.read(bytes) {
            HeadResult::Head(head) => return Ok(Some(head)),
            HeadResult::NotHttp => return Err(NotInjected::Refused("not HTTP, to which no credential can be added")),
            HeadResult::Malformed(why) => return Err(NotInjected::Refused(why)),
            HeadResult::NeedMore => {}
        }
        if more(inside, bytes).await? == 0 {
            let is_whole = bytes.is_empty();
            return if is_whole { Ok(None) } else { Err(NotInjected::Refused("a head that ends early")) };
        }
        kept.begun(bytes.len()).map_err(NotInjected::Refused)?;
    }
}

async fn more<I: AsyncRead + Unpin>(inside: &mut I, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = vec![0; AT_ONCE];
    let count = timeout(IDLE, inside.read(&mut buffer)).await??;
    bytes.extend(&buffer[..count]);
    Ok(count)
}

/// Is this a request that the credential may go with?
fn check(head: &Head, credential: &Credential) -> Result<(), NotInjected> {
    let host = head.host.as_ref().ok_or(NotInjected::Refused("a request that names no host"))?;
    if host.name != credential.host || host.port.is_some_and(|port| port != PLAIN) {
        return Err(NotInjected::Refused("a request for another host"));
    }
    if matches!(head.form, Form::Tunnel(_)) || head.length == Body::UntilClose {
        return Err(NotInjected::Refused("a tunnel, to which no credential can be added"));
    }
    // Its answer is the request itself, with the credential.
    if head.method == "TRACE" {
        return Err(NotInjected::Refused("a request that asks to be repeated"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
