//! The way out: what the relay costs beside the loopback itself and beside proxies, and what a network costs at the start.
//!
//! The server is on this machine. Inside, its port is relayed as one of the host's own, and as that of a host with a name.

mod wire;

use std::fs;
use std::net::ToSocketAddrs as _;
use std::process::{Command, Stdio};

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::{Runner, Turns, in_turns, median};
use super::ground::{Ground, NAME, failed};
use crate::say;
use crate::steps::Failure;

pub(crate) use wire::helper;

/// How many times slower than the loopback much data may be: 0.40 of its speed.
const BULK_BAR: f64 = 2.5;
/// What may be added to a word and its answer, in microseconds.
const ROUND_TRIP_BAR: f64 = 30.0;
/// What may be added to a connection with one word and its answer, in microseconds.
const CONNECT_BAR: f64 = 200.0;
/// How much longer a start with a network may take.
const START_BAR: f64 = 1.15;

/// The proxy that programs inside find.
const FRONT: &str = "198.18.0.2:1080";

/// Measures, prints, and holds everything to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    relay(ground, effort, bars)?;
    start(ground, turns, bars)
}

/// Bytes in a second, a word and its answer, and a connection with one, in microseconds.
type Figures = [f64; 3];

/// A way to the server.
struct Way {
    name: &'static str,
    is_inside: bool,
    server: String,
    proxy: Option<String>,
    /// What it is compared with.
    beside: Option<&'static str>,
    figures: [Vec<f64>; 3],
}

const LOOPBACK: &str = "the loopback";
const NAMED: &str = "a host with a name";

impl Way {
    fn new(name: &'static str, server: &str) -> Self {
        Self {
            name,
            is_inside: false,
            server: server.to_owned(),
            proxy: None,
            beside: None,
            figures: Default::default(),
        }
    }

    fn inside(self, beside: &'static str) -> Self {
        Self { is_inside: true, beside: Some(beside), ..self }
    }

    fn by(self, proxy: &str, beside: &'static str) -> Self {
        Self { proxy: Some(proxy.to_owned()), beside: Some(beside), ..self }
    }

    fn command(&self, ground: &Ground, policy: &std::path::Path) -> Command {
        let mut command = if self.is_inside {
            let mut fenced = ground.fenced(&["--policy".as_ref(), policy.as_os_str()], &[]);
            fenced.arg(ground.helper());
            fenced
        } else {
            ground.command(ground.helper())
        };
        command.arg("bench-net").arg(&self.server).args(&self.proxy);
        command
    }

    fn medians(&self) -> Figures {
        self.figures.clone().map(|mut all| {
            all.sort_by(f64::total_cmp);
            median(&all)
        })
    }
}

/// Every way that there is here. Without root the machine has no name that leads to it.
fn ways(port: u16, proxy: u16) -> Vec<Way> {
    let (own, named) = (format!("127.0.0.1:{port}"), format!("{NAME}:{port}"));
    let mut ways = vec![Way::new(LOOPBACK, &own), Way::new("a port of the host, inside", &own).inside(LOOPBACK)];
    if named.to_socket_addrs().is_ok() {
        ways.extend([
            Way::new(NAMED, &named),
            Way::new("a host with a name, inside", &named).inside(NAMED),
            Way::new("its proxy, inside", &named).by(FRONT, NAMED).inside(NAMED),
            Way::new("a plain proxy, outside", &named).by(&format!("127.0.0.1:{proxy}"), NAMED),
        ]);
    } else {
        say::progress(format!("skipped: a host with a name; only root can make {NAME} lead anywhere"));
    }
    ways
}

fn relay(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let no_server = |cause| Failure::Found(format!("the server: {cause}"));
    let (port, proxy) = (wire::serve().map_err(no_server)?, wire::serve_proxy().map_err(no_server)?);
    let named = format!("{NAME}:{port}");
    let network = format!("allow = [\"{named}\"]\nprivate = [\"{named}\"]\nhost_ports = [{port}]\n");
    let policy = write_policy(ground, "relay", &network)?;
    let mut ways = ways(port, proxy);
    let rounds = if effort == Effort::Quick { 3 } else { 5 };
    for _ in 0..rounds {
        for way in &mut ways {
            let figures = read(way.command(ground, &policy))?;
            figures.into_iter().zip(&mut way.figures).for_each(|(figure, all)| all.push(figure));
        }
    }
    let all: Vec<(&Way, Figures)> = ways.iter().map(|way| (way, way.medians())).collect();
    let rows: Vec<Vec<String>> = all.iter().map(|(way, figures)| row(way, *figures, &all, bars)).collect();
    let title = format!("The relay, medians of {rounds} rounds of {} connections", wire::CONNECTIONS);
    table(&title, &["what", "much data", "a word and its answer", "a connection, a word, its answer"], &rows);
    Ok(())
}

/// One way beside the one that it is compared with. Those inside without a proxy have bars.
fn row(way: &Way, figures: Figures, all: &[(&Way, Figures)], bars: &mut Bars) -> Vec<String> {
    let [bulk, trip, connect] = figures;
    let mut cells = [format!("{:.2} GB/s", bulk / 1e9), format!("{trip:.1} µs"), format!("{connect:.1} µs")];
    let beside = way.beside.and_then(|name| all.iter().find(|(other, _)| other.name == name));
    if let Some((_, beside)) = beside {
        cells[0] += &format!(", {:.2} of it", bulk / beside[0]);
        cells[1] += &format!(", {:.1} more", trip - beside[1]);
        cells[2] += &format!(", {:.1} more", connect - beside[2]);
        if way.is_inside && way.proxy.is_none() {
            let mut held =
                |what: &str, figure, bar| format!(" ({})", bars.hold(&format!("{}: {what}", way.name), figure, bar));
            cells[0] += &held("time for much data, over that outside", beside[0] / bulk, BULK_BAR);
            cells[1] += &held("added round trip in microseconds", trip - beside[1], ROUND_TRIP_BAR);
            cells[2] += &held("added connect time in microseconds", connect - beside[2], CONNECT_BAR);
        }
    }
    std::iter::once(way.name.to_owned()).chain(cells).collect()
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
