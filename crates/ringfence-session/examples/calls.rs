//! An orchestrator in small: makes the same call many times within a session, and prints how long each took.
//!
//! `calls SESSION COUNT CMD ARG...`, for a session that `ringfence run` has started: one line of microseconds for each call.

use std::env;
use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringfence_fs::{Environment as _, Exec};
use ringfence_session::fenced::FencedEnvironment;
use ringfence_surface::SubPolicy;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (mut said, mut cause) = (error.to_string(), error.source());
            while let Some(error) = cause {
                said = format!("{said}: {error}");
                cause = error.source();
            }
            // Nobody is left to tell when stderr is closed.
            let _ = writeln!(std::io::stderr(), "calls: {said}");
            ExitCode::from(125)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [session, count, program, arguments @ ..] = words.as_slice() else {
        return Err("calls SESSION COUNT CMD".into());
    };
    // Tools of this session write where it works and reach nothing.
    let tools = FencedEnvironment::in_session(session, |session| SubPolicy::for_tools(session).without_network())?;
    let exec = Exec::new(program, Duration::from_secs(60)).args(arguments);
    for _ in 0..count.parse()? {
        let start = Instant::now();
        let done = tools.exec(&exec)?;
        if !done.outcome.is_success() {
            return Err(format!("{:?}", done.outcome).into());
        }
        writeln!(std::io::stdout(), "{}", start.elapsed().as_micros())?;
    }
    Ok(())
}
