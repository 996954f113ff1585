//! What is said to measure the way out: a server, a plain proxy as others use one, and the client that takes the times.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use super::super::clock::median;
use crate::say;
use crate::steps::Failure;

/// How much data is fetched.
const BULK: usize = 256 << 20;
/// How many words are said.
const WORDS: usize = 5_000;
/// How many connections are made one after another; with five rounds that is ten thousand.
pub(super) const CONNECTIONS: usize = 2_000;
/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection is for, said in its first byte.
const ANSWER: u8 = 1;
const POUR: u8 = 2;

/// A server in threads of its own, until the program ends. Its port.
pub(super) fn serve() -> io::Result<u16> {
    // At every address: one of them has a name.
    each_connection(Ipv4Addr::UNSPECIFIED, answer)
}

/// A proxy for tunnels that does as little as it can: it knows no rules. Its port.
pub(super) fn serve_proxy() -> io::Result<u16> {
    each_connection(Ipv4Addr::LOCALHOST, tunnel)
}

fn each_connection(address: Ipv4Addr, action: fn(TcpStream) -> io::Result<()>) -> io::Result<u16> {
    let listener = TcpListener::bind((address, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever breaks off is told by what it measured.
            std::thread::spawn(move || drop(action(stream)));
        }
    });
    Ok(port)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut word = [0];
    stream.read_exact(&mut word)?;
    if word == [POUR] {
        let chunk = vec![7; 256 * 1024];
        return (0..BULK / chunk.len()).try_for_each(|_| stream.write_all(&chunk));
    }
    loop {
        stream.write_all(&word)?;
        stream.read_exact(&mut word)?;
    }
}

fn tunnel(mut inside: TcpStream) -> io::Result<()> {
    let head = read_head(&mut inside)?;
    let target = head.split(' ').nth(1).ok_or(io::ErrorKind::InvalidData)?;
    let outside = TcpStream::connect(target)?;
    inside.set_nodelay(true)?;
    outside.set_nodelay(true)?;
    inside.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (from, to) = (outside.try_clone()?, inside.try_clone()?);
    std::thread::spawn(move || drop(pump(from, to)));
    pump(inside, outside)
}

fn pump(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(Shutdown::Write),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

/// Everything up to an empty line. Nobody says more before there is an answer.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut buffer) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend(&buffer[..length]),
        }
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// Whom to reach, and how.
struct Target {
    /// As it is written.
    name: String,
    /// What is dialled: the server, or a proxy that is asked for it.
    dialled: SocketAddr,
    is_proxy: bool,
}

impl Target {
    /// A name is looked up once: what is measured is the way.
    fn find(server: &str, proxy: Option<&str>) -> io::Result<Self> {
        let mut found = proxy.unwrap_or(server).to_socket_addrs()?;
        let dialled = found.find(SocketAddr::is_ipv4).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { name: server.to_owned(), dialled, is_proxy: proxy.is_some() })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.dialled)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if self.is_proxy {
            stream.write_all(format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", self.name).as_bytes())?;
            let reply = read_head(&mut stream)?;
            if !reply.starts_with("HTTP/1.1 200 ") {
                return Err(io::Error::other(reply));
            }
        }
        Ok(stream)
    }
}

/// The helper: says how many bytes came in a second, and what a word and what a connection took in microseconds.
pub(crate) fn helper(server: &str, proxy: Option<&str>) -> Result<(), Failure> {
    let measured = Target::find(server, proxy).and_then(|target| measure(&target));
    let measured = measured.map_err(|cause| Failure::Found(format!("{server}: {cause}")))?;
    say::result(measured.map(|figure| figure.to_string()).join(" "));
    Ok(())
}

fn measure(target: &Target) -> io::Result<[f64; 3]> {
    let say = |stream: &mut TcpStream| {
        stream.write_all(&[ANSWER])?;
        stream.read_exact(&mut [0])
    };
    // The first of each warms up.
    let mut stream = target.connect()?;
    say(&mut stream)?;
    let trip = middle(WORDS, || say(&mut stream))?;
    let connection = middle(CONNECTIONS, || say(&mut target.connect()?))?;
    pour(target.connect()?)?;
    let fetched = (0..3).map(|_| pour(target.connect()?)).collect::<io::Result<Vec<f64>>>()?;
    Ok([fetched.into_iter().fold(0.0, f64::max), trip, connection])
}

/// How many bytes come in a second.
fn pour(mut stream: TcpStream) -> io::Result<f64> {
    stream.write_all(&[POUR])?;
    let (mut buffer, mut left, begun) = (vec![0; 256 * 1024], BULK, Instant::now());
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => left = left.saturating_sub(length),
        }
    }
    Ok(BULK as f64 / begun.elapsed().as_secs_f64())
}

/// The middle of what each of many takes, in microseconds.
fn middle(count: usize, mut action: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        action()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(median(&times))
}
