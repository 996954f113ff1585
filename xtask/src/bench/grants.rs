//! What is given to a running session: from the request on its control socket until it is in force inside.
//!
//! The answer comes when the change is in force, so the time until then is no shorter than until the command inside sees it; that it
//! does see it is tried each time, outside of what is timed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::median;
use super::ground::{Ground, failed};
use crate::steps::Failure;

/// The most that a grant and the end of one may take, in milliseconds.
const GRANT_BAR: f64 = 1.0;
const REVOKE_BAR: f64 = 10.0;

/// Gives a place and a host to a session and takes them away, over and over.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let times = if effort == Effort::Quick { 200 } else { 1_000 };
    let place = ground.home().join("given");
    fs::create_dir_all(&place).map_err(|cause| failed(&place, &cause))?;
    fs::write(place.join("file"), "seen\n").map_err(|cause| failed(&place, &cause))?;
    let mut session = Session::start(ground)?;
    let mut desk = session.desk()?;
    let id = fs::metadata(&place).map_err(|cause| failed(&place, &cause))?;
    let path = place.display().to_string();
    let give = json!({"verb": "grant", "path": path, "device": id.dev(), "inode": id.ino(), "masked": []}).to_string();
    let take = json!({"verb": "revoke", "path": path}).to_string();
    let look = format!("cat '{path}/file' 2>/dev/null || echo none");
    let mut rows = Vec::new();
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..times {
        given.push(desk.ask(&give)?);
        session.says(&look, "seen")?;
        taken.push(desk.ask(&take)?);
        session.says(&look, "none")?;
    }
    let (given, taken) = (sorted(given), sorted(taken));
    let grant = bars.hold("a place given to a running session, in ms", median(&given) * 1e3, GRANT_BAR);
    let revoke = bars.hold("a place taken away from a running session, in ms", median(&taken) * 1e3, REVOKE_BAR);
    rows.push(row("a place, to read", &given, &grant));
    rows.push(row("the end of it", &taken, &revoke));
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..times {
        given.push(desk.ask(r#"{"verb":"grant-host","host":"given.ringfence.example:80"}"#)?);
        taken.push(desk.ask(r#"{"verb":"revoke-host","host":"given.ringfence.example:80"}"#)?);
    }
    rows.push(row("a host", &sorted(given), "no bar"));
    rows.push(row("the end of it", &sorted(taken), "no bar"));
    drop(desk);
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..times / 10 {
        given.push(command(ground, &["grant", &session.id, "--read", &path])?);
        taken.push(command(ground, &["revoke", &session.id, &path])?);
    }
    rows.push(row("`ringfence grant --read`, the whole command", &sorted(given), "no bar"));
    rows.push(row("`ringfence revoke`, the whole command", &sorted(taken), "no bar"));
    session.end()?;
    table("Given to a session that runs", &["what", "median", "99 of 100", "bar"], &rows);
    Ok(())
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn row(what: &str, times: &[f64], verdict: &str) -> Vec<String> {
    let most = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    vec![what.to_owned(), ms(median(times)), ms(most), verdict.to_owned()]
}

fn command(ground: &Ground, words: &[&str]) -> Result<f64, Failure> {
    let mut command = ground.command(ground.ringfence());
    command.args(words);
    let begun = Instant::now();
    let status = command.status().map_err(|cause| Failure::Start { command: words.join(" "), cause })?;
    let took = begun.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(Failure::Status { command: words.join(" "), status }) }
}

/// A session whose command is a shell that does what it is told.
struct Session<'g> {
    ground: &'g Ground,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: String,
}

impl<'g> Session<'g> {
    fn start(ground: &'g Ground) -> Result<Self, Failure> {
        let lacking = || Failure::Found("the session has no streams".to_owned());
        let mut command = ground.fenced(&[], &["/bin/sh"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|cause| Failure::Start { command: "ringfence run".to_owned(), cause })?;
        let (stdin, stdout) = (child.stdin.take().ok_or_else(lacking)?, child.stdout.take().ok_or_else(lacking)?);
        let mut session = Self { ground, child, stdin, stdout: BufReader::new(stdout), id: String::new() };
        session.id = session.does("echo $RINGFENCE_SESSION")?;
        if session.id.is_empty() { Err(Failure::Found("the session did not start".to_owned())) } else { Ok(session) }
    }

    fn does(&mut self, script: &str) -> Result<String, Failure> {
        let broken = |cause: std::io::Error| Failure::Found(format!("the session broke off: {cause}"));
        writeln!(self.stdin, "{script}").map_err(broken)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(broken)?;
        Ok(line.trim().to_owned())
    }

    fn says(&mut self, script: &str, expected: &str) -> Result<(), Failure> {
        match self.does(script)? {
            said if said == expected => Ok(()),
            said => Err(Failure::Found(format!("inside is `{said}`, not `{expected}`"))),
        }
    }

    fn desk(&self) -> Result<Desk, Failure> {
        let dir = self.ground.home().join(".local/state/ringfence/sessions").join(&self.id);
        Desk::open(&dir)
    }

    fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin);
        let status = self.child.wait().map_err(|cause| Failure::Found(cause.to_string()))?;
        if status.success() { Ok(()) } else { Err(Failure::Status { command: "ringfence run".to_owned(), status }) }
    }
}

/// A conversation with the supervisor.
struct Desk {
    stream: BufReader<UnixStream>,
    token: String,
}

impl Desk {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let file = dir.join("session.json");
        let text = fs::read(&file).map_err(|cause| failed(&file, &cause))?;
        let about: Value = serde_json::from_slice(&text).map_err(|cause| Failure::Found(cause.to_string()))?;
        let socket = dir.join("control");
        let stream = UnixStream::connect(&socket).map_err(|cause| failed(&socket, &cause))?;
        Ok(Self { stream: BufReader::new(stream), token: about["token"].as_str().unwrap_or_default().to_owned() })
    }

    /// How long something takes until it is answered, in seconds.
    fn ask(&mut self, verb: &str) -> Result<f64, Failure> {
        let broken = |cause: std::io::Error| Failure::Found(format!("the supervisor broke off: {cause}"));
        let line = format!("{{\"v\":1,\"token\":\"{}\",\"ask\":{verb}}}\n", self.token);
        let mut answer = String::new();
        let begun = Instant::now();
        self.stream.get_mut().write_all(line.as_bytes()).map_err(broken)?;
        self.stream.read_line(&mut answer).map_err(broken)?;
        let took = begun.elapsed().as_secs_f64();
        if answer.contains("\"done\"") || answer.contains("\"closed\"") {
            Ok(took)
        } else {
            Err(Failure::Found(answer))
        }
    }
}
