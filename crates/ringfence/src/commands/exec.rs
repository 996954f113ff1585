//! `ringfence exec`: one command within a session, in a fence of its own that is tighter.

mod called;
mod policy;
mod session_look;

use std::io::{self, Read as _};
use std::process::ExitCode;

use ringfence_fs::Outcome;
use ringfence_plan::Rung;
use ringfence_session::alive::Found;
use ringfence_session::call::{CallError, Laid, Side, Within};
use ringfence_session::capture::{Came, Terms, capture};
use ringfence_session::given;
use ringfence_session::launch::Ended;
use ringfence_session::probe;
use ringfence_session::record::Record;
use ringfence_session::start::Occasion;
use ringfence_surface::policy::Tier;
use ringfence_surface::{AbsPath, SubPolicy};
use rustix::fd::AsFd as _;

use super::{receipt, run};
use crate::cli::ExecArgs;
use crate::error::{Failure, RootFailure};
use crate::host::{Recorder, facts, mounts};
use crate::out::{print_bytes, print_json, say, say_bytes};
use crate::wire::executed::{WireExecuted, WireRefused};

pub(crate) use called::run as called;

/// How much of each stream is kept where nobody says.
const KEPT: usize = 1 << 20;

pub(crate) fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    ringfence_session::adopt_own_umask();
    match attempt(args) {
        Err(failure) if args.json => {
            print_json(&WireRefused::new(&failure))?;
            Err(failure)
        }
        other => other.map(ExitCode::from),
    }
}

fn attempt(args: &ExecArgs) -> Result<u8, Failure> {
    let (mut within, session) = session(&args.within)?;
    let mut look = Recorder::new(Vec::new());
    let asked = policy::asked(args, &within, &mut look)?;
    loop {
        match make(args, &within, &asked, session.as_ref()) {
            Err(failure) if within.rung == Rung::Native && failure.is_the_hosts() && probe::native().is_err() => {
                within.rung = Rung::LandlockOnly;
            }
            other => return other,
        }
    }
}

/// What calls are made within, and the session whose end is the end of the call, if that runs beside us.
fn session(name: &str) -> Result<(Within, Option<Found>), Failure> {
    let facts = facts()?;
    let Some(record) = around(name)? else {
        let (within, found) = Within::session(name, facts).map_err(|source| Failure::Within { source })?;
        return Ok((within, Some(found)));
    };
    // The session's own temporary files are where it may write, whoever else looks on.
    let state = record.home.parent().ok_or(Failure::NoHome)?.join("tmp/.ringfence");
    let rung = if probe::native().is_ok() { Rung::Native } else { Rung::LandlockOnly };
    let Record { surface, rung: session_rung, .. } = record;
    Ok((Within { surface, facts, state, side: Side::Inside, rung, session_rung, user: None, container: None }, None))
}

/// The record of the session that we are in, if it is the one that is meant. Whoever runs inside may have put another in its
/// place, and gains nothing by it: the fence around goes on to hold.
fn around(name: &str) -> Result<Option<Record>, Failure> {
    let is_meant = |own: &std::ffi::OsStr| own.to_str().is_some_and(|own| !name.is_empty() && own.starts_with(name));
    let Some(program) = std::env::var_os("RINGFENCE_EXE") else { return Ok(None) };
    if !std::env::var_os("RINGFENCE_SESSION").is_some_and(|own| is_meant(&own)) {
        return Ok(None);
    }
    let program = AbsPath::lexical(program.as_encoded_bytes()).map_err(|source| Failure::Path { source })?;
    let path = program.parent().unwrap_or_else(AbsPath::root).join(given::RECORD);
    Record::read(&path).map(Some).map_err(|source| Failure::Record { source })
}

fn make(args: &ExecArgs, within: &Within, asked: &SubPolicy, session: Option<&Found>) -> Result<u8, Failure> {
    let is_captured = args.json || args.max_output.is_some();
    let occasion = if is_captured { Occasion::CapturedCall } else { Occasion::Call };
    let mut within = within.clone();
    if asked.memory.is_some() || asked.pids.is_some() {
        within.facts.mounts = mounts();
    }
    let laid = within.lay_out(asked, &args.command, occasion, &mut Recorder::new(Vec::new())).map_err(failed)?;
    accept(args, &laid)?;
    for hidden in &laid.ready().walked.hidden {
        say(&format!("ringfence: hidden: {}: {}", hidden.path, hidden.why.words()));
    }
    let started = |source| Failure::Start { source };
    if !is_captured {
        let watched = session.map(Found::watched).transpose();
        let watched = watched.map_err(|source| Failure::Output { source })?;
        let ended = laid.run(watched).map_err(started)?;
        tell(&ended, asked);
        return Ok(run::told_code(&ended));
    }
    let input = if args.command.is_empty() { Vec::new() } else { read_input()? };
    let short: Vec<String> = receipt::grouped(&laid.short);
    let terms = Terms {
        input: &input,
        keep: args.max_output.unwrap_or(KEPT),
        timeout: laid.surface.caps().wall.as_ref().map(|cap| cap.value),
        session,
    };
    let came = capture(laid, &terms).map_err(started)?;
    tell(&came.ended, asked);
    show(args, &came, short)?;
    // Who was ended has no code of its own; 125 would say that nothing was started.
    let is_ended = matches!(came.executed.outcome, Outcome::TimedOut) || came.ended.session_over;
    Ok(if is_ended { KILLED } else { came.ended.code })
}

/// 128 and SIGKILL.
const KILLED: u8 = 137;

/// A terminal is not waited for: whoever captures has no use for one.
fn read_input() -> Result<Vec<u8>, Failure> {
    let mut input = Vec::new();
    if !rustix::termios::isatty(io::stdin().as_fd()) {
        io::stdin().lock().read_to_end(&mut input).map_err(|source| Failure::Output { source })?;
    }
    Ok(input)
}

fn show(args: &ExecArgs, came: &Came, short: Vec<String>) -> Result<(), Failure> {
    if args.json {
        return print_json(&WireExecuted::new(came, short));
    }
    print_bytes(&came.executed.stdout.tail)?;
    say_bytes(&came.executed.stderr.tail);
    let streams = [("output", &came.executed.stdout), ("errors", &came.executed.stderr)];
    for (name, stream) in streams.iter().filter(|(_, stream)| stream.is_truncated()) {
        say(&format!("ringfence: the first {} bytes of its {name} are not shown (`--max-output`)", stream.dropped));
    }
    Ok(())
}

fn failed(cause: CallError) -> Failure {
    match cause {
        CallError::Prepare(source) => Failure::Prepare { source },
        CallError::Start(source) => Failure::Start { source },
        CallError::Widens(source) => Failure::Widens { source },
        CallError::PartOfTheNetwork => Failure::PartOfTheNetwork,
        CallError::InRoot => Failure::Root { source: RootFailure::Call },
        CallError::Own { state, source } => Failure::Write { path: crate::host::os_path(&state).into(), source },
    }
}

/// Says what does not hold, and refuses where it must.
fn accept(args: &ExecArgs, laid: &Laid) -> Result<(), Failure> {
    refused_by_tier(laid)?;
    if !args.json {
        receipt::grouped(&laid.short).iter().for_each(|line| say(&format!("ringfence: not held: {line}")));
    }
    Ok(())
}

/// In production everything must hold.
fn refused_by_tier(laid: &Laid) -> Result<(), Failure> {
    if laid.surface.tier() == Tier::Production && !laid.short.is_empty() {
        return Err(Failure::Shortfalls { short: receipt::grouped(&laid.short) });
    }
    Ok(())
}

fn tell(ended: &Ended, asked: &SubPolicy) {
    if ended.out_of_time {
        let limit =
            asked.wall.map_or("its session's limit".to_owned(), |wall| format!("{} s (`--timeout`)", wall.as_secs()));
        say(&format!("ringfence: ended after {limit}"));
    }
    if ended.session_over {
        say("ringfence: ended, because its session did");
    }
    run::stopped(ended).iter().for_each(|line| say(line));
}
