//! The way out: what the relay costs beside the loopback itself, and what a network costs at the start.
//!
//! The server is on the host's loopback. Inside, the same port is relayed to it: a named host takes the same way, after its
//! name was looked up.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::{Runner, Turns, in_turns, median};
use super::ground::{Ground, failed};
use crate::say;
use crate::steps::Failure;

/// How many times slower than the loopback much data may be: 0.40 of its speed.
const BULK_BAR: f64 = 2.5;
/// What may be added to a word and its answer, in microseconds.
const ROUND_TRIP_BAR: f64 = 30.0;
/// What may be added to a connection with one word and its answer, in microseconds.
const CONNECT_BAR: f64 = 200.0;
/// How much longer a start with a network may take.
const START_BAR: f64 = 1.15;

/// How much data is fetched.
const BULK: usize = 256 << 20;
/// How many words are said.
const WORDS: usize = 5_000;
/// How many connections are made one after another; with five rounds that is ten thousand.
const CONNECTIONS: usize = 2_000;
/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection is for, said in its first byte.
const ANSWER: u8 = 1;
const POUR: u8 = 2;

/// Measures, prints, and holds everything to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    relay(ground, effort, bars)?;
    start(ground, turns, bars)
}

fn relay(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let port = serve().map_err(|cause| Failure::Found(format!("the server: {cause}")))?;
    let policy = write_policy(ground, "relay", &format!("host_ports = [{port}]\n"))?;
    let rounds = if effort == Effort::Quick { 3 } else { 5 };
    let mut figures: [[Vec<f64>; 3]; 2] = Default::default();
    for _ in 0..rounds {
        let mut direct = ground.command(ground.helper());
        direct.args(["bench-net", &port.to_string()]);
        let mut fenced = ground.fenced(&["--policy".as_ref(), policy.as_os_str()], &[]);
        fenced.arg(ground.helper()).args(["bench-net", &port.to_string()]);
        for (command, figures) in [direct, fenced].into_iter().zip(&mut figures) {
            for (figure, all) in read(command)?.into_iter().zip(figures) {
                all.push(figure);
            }
        }
    }
    let [direct, fenced] = figures.map(|kinds| {
        kinds.map(|mut all| {
            all.sort_by(f64::total_cmp);
            median(&all)
        })
    });
    let bulk = bars.hold("time for much data, over the loopback", direct[0] / fenced[0], BULK_BAR);
    let trip = bars.hold("added round trip in microseconds", fenced[1] - direct[1], ROUND_TRIP_BAR);
    let connect = bars.hold("added connect time in microseconds", fenced[2] - direct[2], CONNECT_BAR);
    let speed = |bytes: f64| format!("{:.2} GB/s", bytes / 1e9);
    let micro = |time: f64| format!("{time:.1} µs");
    let rows = [
        vec![
            "much data".to_owned(),
            speed(direct[0]),
            speed(fenced[0]),
            format!("{:.2} of it ({bulk} times slower)", fenced[0] / direct[0]),
        ],
        vec![
            "a word and its answer".to_owned(),
            micro(direct[1]),
            micro(fenced[1]),
            format!("{} more ({trip})", micro(fenced[1] - direct[1])),
        ],
        vec![
            "a connection, a word, its answer".to_owned(),
            micro(direct[2]),
            micro(fenced[2]),
            format!("{} more ({connect})", micro(fenced[2] - direct[2])),
        ],
    ];
    let title = format!("The relay beside the loopback, medians of {rounds} rounds of {CONNECTIONS} connections");
    table(&title, &["what", "loopback", "relay", "relay over loopback"], &rows);
    Ok(())
}

fn start(ground: &Ground, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    let without = write_policy(ground, "without", "allow = []\n")?;
    let with = write_policy(ground, "with", "allow = [\"site.example.com\"]\n")?;
    let fenced = |policy: &std::path::Path| ground.fenced(&["--policy".as_ref(), policy.as_os_str()], &["true"]);
    let runners = vec![
        Runner { name: "without a network", command: fenced(&without) },
        Runner { name: "with a network", command: fenced(&with) },
    ];
    let taken = in_turns(runners, turns)?;
    let [without, with] = taken.as_slice() else { return Ok(()) };
    let ratio = with.median / without.median;
    let verdict = bars.hold("start with a network over start without", ratio, START_BAR);
    let rows: Vec<Vec<String>> =
        taken.iter().map(|taken| vec![taken.name.to_owned(), ms(taken.median), ms(taken.least)]).collect();
    table(&format!("Starting `true` with a network ({ratio:.2}, {verdict})"), &["what", "median", "least"], &rows);
    Ok(())
}

fn write_policy(ground: &Ground, name: &str, network: &str) -> Result<std::path::PathBuf, Failure> {
    let policy = ground.dir.join(format!("scratch/net-{name}.toml"));
    fs::write(&policy, format!("version = 1\n[network]\n{network}")).map_err(|cause| failed(&policy, &cause))?;
    Ok(policy)
}

fn read(mut command: Command) -> Result<[f64; 3], Failure> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: "bench-net".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match figures.as_slice() {
        [bulk, trip, connect] if output.status.success() => Ok([*bulk, *trip, *connect]),
        _ => Err(Failure::Found(format!("bench-net: {}: {}", output.status, output.stderr.escape_ascii()))),
    }
}

/// A server in threads of its own, until the program ends. Its port.
fn serve() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever breaks off is told by what it measured.
            std::thread::spawn(move || drop(answer(stream)));
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

/// The helper: says how many bytes came in a second, and what a word and what a connection took in microseconds.
pub(crate) fn helper(port: &str) -> Result<(), Failure> {
    let port = port.parse().map_err(|_| Failure::Found(format!("no port: {port}")))?;
    let measured = measure(port).map_err(|cause| Failure::Found(format!("port {port}: {cause}")))?;
    say::result(measured.map(|figure| figure.to_string()).join(" "));
    Ok(())
}

fn measure(port: u16) -> io::Result<[f64; 3]> {
    let connect = || {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok::<_, io::Error>(stream)
    };
    let say = |stream: &mut TcpStream| {
        stream.write_all(&[ANSWER])?;
        stream.read_exact(&mut [0])
    };
    // The first of each warms up.
    let mut stream = connect()?;
    say(&mut stream)?;
    let trip = middle(WORDS, || say(&mut stream))?;
    let connection = middle(CONNECTIONS, || say(&mut connect()?))?;
    pour(connect()?)?;
    let fetched = (0..3).map(|_| pour(connect()?)).collect::<io::Result<Vec<f64>>>()?;
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
