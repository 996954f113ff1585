//! `ringfence called`: what a supervisor starts when somebody asks it for a command within its session.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_plan::Rung;
use ringfence_session::call::{Call, Within};
use ringfence_session::called::{Attention, Called, attend};
use ringfence_session::desk::{CallAnswer, CallOrder};
use ringfence_session::launch::Ended;
use ringfence_session::probe;
use ringfence_session::start::Occasion;
use ringfence_session::terminal::Signals;
use ringfence_session::text::Bytes;
use ringfence_surface::SubPolicy;

use super::session_look::SessionLook;
use super::{failed, policy, refused_by_tier};
use crate::cli::{CalledArgs, ExecArgs};
use crate::commands::receipt;
use crate::error::Failure;
use crate::host::{Recorder, facts, mounts};

pub(crate) fn run(args: &CalledArgs) -> Result<ExitCode, Failure> {
    // Before there is another thread that a signal could reach.
    ringfence_session::adopt_own_umask();
    let signals = Signals::block().map_err(|source| Failure::Output { source })?;
    let called = Called::take().map_err(|source| Failure::Output { source })?;
    let (order, streams, channel) = called.into_parts();
    let answer = match make(args, order, streams, (&channel, &signals)) {
        Ok(ended) => CallAnswer::Ended {
            code: ended.code,
            signal: ended.signal,
            out_of_time: ended.out_of_time,
            session_over: ended.session_over,
            stopped: ended
                .refusals
                .0
                .iter()
                .map(|(refusal, _)| format!("{}: {}", refusal.attempt, refusal.why))
                .collect(),
        },
        Err(failure) => CallAnswer::Refused { code: failure.exit_code(), why: failure.whole(), hint: failure.hint() },
    };
    // Whoever has gone does not want to know.
    let _ = Called::say(&channel, answer);
    Ok(ExitCode::SUCCESS)
}

fn make(
    args: &CalledArgs,
    order: CallOrder,
    streams: [OwnedFd; 3],
    (channel, signals): (&UnixStream, &Signals),
) -> Result<Ended, Failure> {
    let (wall, memory) = (order.timeout_ms.map(Duration::from_millis), order.memory);
    let exec = exec_args(args, order)?;
    let (mut within, session) =
        Within::session(&args.session, facts()?).map_err(|source| Failure::Within { source })?;
    if args.inside {
        within_its_limits(&within)?;
    }
    // Where the supervisor stands is nobody's business.
    within.facts.cwd = within.surface.workdir().clone();
    let mut host = Recorder::new(Vec::new());
    // Who orders from inside learns nothing of the host by it that the session cannot see.
    let asked = if args.inside {
        policy::asked(&exec, &within, &mut SessionLook::new(&within.surface, &mut host))
    } else {
        policy::asked(&exec, &within, &mut host)
    }?;
    let asked = SubPolicy { wall: wall.or(asked.wall), memory: memory.or(asked.memory), ..asked };
    if asked.memory.is_some() || asked.pids.is_some() {
        within.facts.mounts = mounts();
    }
    loop {
        let copies = streams.each_ref().map(OwnedFd::try_clone);
        let [Ok(input), Ok(output), Ok(errors)] = copies else {
            let source = std::io::Error::other("no descriptor is left");
            return Err(Failure::Output { source });
        };
        match attempt(&within, &asked, &exec.command, [input, output, errors]) {
            Ok((call, timeout, not_held)) => {
                // Those that were kept for another try must go, or whoever reads waits for their end.
                drop(streams);
                // Whoever has gone is noticed when the call is attended to.
                let _ = Called::say(channel, CallAnswer::Started { not_held });
                let attention = Attention { channel, signals, timeout, session: &session, rung: within.rung };
                return attend(call, &attention).map_err(|source| Failure::Start { source });
            }
            Err(failure) if within.rung == Rung::Native && failure.is_the_hosts() && probe::native().is_err() => {
                within.rung = Rung::LandlockOnly;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// A call that has begun, how long it may take, and what of its fence does not hold.
type Begun = (Call, Option<Duration>, Vec<String>);

fn attempt(within: &Within, asked: &SubPolicy, command: &[OsString], streams: [OwnedFd; 3]) -> Result<Begun, Failure> {
    let laid =
        within.lay_out(asked, command, Occasion::CapturedCall, &mut Recorder::new(Vec::new())).map_err(failed)?;
    refused_by_tier(&laid)?;
    let not_held = receipt::grouped(&laid.short);
    let timeout = laid.surface.caps().wall.as_ref().map(|cap| cap.value);
    let call = laid.start(streams).map_err(|source| Failure::Start { source })?;
    Ok((call, timeout, not_held))
}

/// A call has a group of its own beside the session's: whoever is inside would have the limit as often as it makes calls.
fn within_its_limits(within: &Within) -> Result<(), Failure> {
    let caps = within.surface.caps();
    if caps.memory.is_none() && caps.pids.is_none() {
        return Ok(());
    }
    let why = "this session has a limit of memory or processes, which a call asked for inside would not share";
    let hint = "`\"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\"` makes the call inside, within the limit";
    Err(Failure::Refused { why: why.into(), hint: Some(hint.into()) })
}

/// The same as on a command line.
fn exec_args(args: &CalledArgs, order: CallOrder) -> Result<ExecArgs, Failure> {
    let word =
        |bytes: Bytes| bytes.bytes().map(OsString::from_vec).ok_or(Failure::BadPath { reason: "not bytes".into() });
    let words = |all: Vec<Bytes>| all.into_iter().map(word).collect::<Result<Vec<OsString>, Failure>>();
    let wrong = |why: &str| Failure::Refused { why: why.to_owned(), hint: None };
    if order.read_only && !order.write.is_empty() {
        return Err(wrong("`read_only` and `write` are not for one call"));
    }
    if order.no_network && !(order.hosts.is_empty() && order.host_ports.is_empty() && order.sockets.is_empty()) {
        return Err(wrong("`no_network` is not for a call that names what it reaches"));
    }
    if order.timeout_ms == Some(0) || order.memory == Some(0) || order.pids == Some(0) {
        return Err(wrong("a limit of nothing is none"));
    }
    Ok(ExecArgs {
        within: args.session.clone(),
        write: order.write,
        read_only: order.read_only,
        read: order.read,
        deny: order.deny,
        protect: order.protect,
        no_network: order.no_network,
        host: order.hosts,
        host_port: order.host_ports,
        socket: words(order.sockets)?,
        env: order.env,
        workdir: order.workdir.map(word).transpose()?,
        timeout: None,
        memory: None,
        pids: order.pids,
        max_output: None,
        json: false,
        command: words(order.command)?,
    })
}
