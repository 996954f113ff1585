//! Names as this host resolves them: its hosts file, then the servers that it names.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns::{self, Kind, Reply};
use crate::joined::JoinedLookups;
use crate::resolv::{self, Hosts, ResolvConf};

/// The addresses of a name.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Whoever knows the addresses of names.
pub trait Resolver: Send + Sync {
    /// Every address of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a>;
}

/// How long an answer is used at most. Its own time to live may be shorter.
const LONGEST: Duration = Duration::from_secs(60);
/// How many answers are kept.
const MOST: usize = 1_024;

/// The host's own resolver.
#[derive(Debug)]
pub struct System {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    known: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    asking: JoinedLookups,
    /// The hosts file as it was read, and what told it from another.
    read: Mutex<Option<(Version, Hosts)>>,
}

/// When a file was changed, its length and its number.
type Version = Option<(Option<SystemTime>, u64, u64)>;

impl System {
    /// With the files that every system has.
    #[must_use]
    pub fn new() -> Self {
        Self::with_files("/etc/hosts".into(), "/etc/resolv.conf".into())
    }

    /// With other files in their place.
    #[must_use]
    pub fn with_files(hosts: PathBuf, resolv_conf: PathBuf) -> Self {
        let known = Mutex::new(HashMap::new());
        Self { hosts, resolv_conf, known, asking: JoinedLookups::new(), read: Mutex::new(None) }
    }

    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let named = self.named(name);
        if !named.is_empty() {
            return Ok(named);
        }
        if let Some(known) = self.remembered(name) {
            return Ok(known);
        }
        self.asking.look_up(name, self.ask_servers(name)).await
    }

    async fn ask_servers(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let servers = resolv::parse_resolv_conf(&std::fs::read(&self.resolv_conf).unwrap_or_default());
        let (v6, v4) = tokio::join!(ask(&servers, name, Kind::Aaaa), ask(&servers, name, Kind::A));
        let replies = match (v6, v4) {
            (Err(cause), Err(_)) => return Err(cause),
            (v6, v4) => v6.into_iter().chain(v4),
        };
        let (mut addresses, mut ttl) = (Vec::new(), LONGEST);
        for reply in replies {
            ttl = ttl.min(Duration::from_secs(u64::from(reply.ttl)));
            addresses.extend(reply.addresses);
        }
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        }
        self.remember(name, &addresses, ttl);
        Ok(addresses)
    }

    /// What the hosts file says. It is read again when it has changed: an administrator who changes it means it.
    fn named(&self, name: &str) -> Vec<IpAddr> {
        let version = std::fs::metadata(&self.hosts).ok().map(|file| (file.modified().ok(), file.len(), file.ino()));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.as_ref().is_none_or(|(known, _)| *known != version) {
            *read = Some((version, resolv::parse_hosts(&std::fs::read(&self.hosts).unwrap_or_default())));
        }
        read.as_ref().map(|(_, hosts)| hosts.lookup(name)).unwrap_or_default()
    }

    fn remembered(&self, name: &str) -> Option<Vec<IpAddr>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).filter(|(until, _)| *until > Instant::now()).map(|(_, addresses)| addresses.clone())
    }

    fn remember(&self, name: &str, addresses: &[IpAddr], ttl: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now() + ttl, addresses.to_vec()));
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for System {
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        Box::pin(self.look_up(name))
    }
}

/// Asks each server in turn, as often as the host says.
async fn ask(servers: &ResolvConf, name: &str, kind: Kind) -> io::Result<Reply> {
    let mut last = io::Error::new(io::ErrorKind::TimedOut, "no name server answers");
    for _ in 0..servers.attempts {
        for server in &servers.servers {
            match timeout(servers.timeout, ask_one(*server, name, kind)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(cause)) => last = cause,
                Err(_) => {}
            }
        }
    }
    Err(last)
}

async fn ask_one(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Reply> {
    let id = random_id()?;
    let query = dns::query(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    let here: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A port of its own for each question, and only this server's datagrams.
    let socket = UdpSocket::bind((here, 0)).await?;
    socket.connect(server).await?;
    socket.send(&query).await?;
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What answers another question was meant for somebody else.
        let Ok(reply) = dns::parse_reply(&buffer[..length], id, name, kind) else { continue };
        return if reply.is_truncated { ask_by_tcp(server, id, name, kind).await } else { Ok(reply) };
    }
}

async fn ask_by_tcp(server: SocketAddr, id: u16, name: &str, kind: Kind) -> io::Result<Reply> {
    let query = dns::query(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), query.as_slice()].concat()).await?;
    let length = stream.read_u16().await?;
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await?;
    dns::parse_reply(&reply, id, name, kind).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Nobody should guess it.
fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u16::from_ne_bytes(bytes))
}
