//! The commands about sessions that run or have run.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueHint};
use ringfence_plan::Claim;

use super::ModeArg;

/// List the sessions that run
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also those that have ended, the newest first
    #[arg(long)]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A session, and how to answer.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print what happened in a session
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Go on until it ends
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print as JSON, one line for each event
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print what was denied in a session, or in all of them
///
/// Each kind of thing once, with how often it was tried, by which rule it was denied, and what would allow it. Also of sessions
/// that have ended.
#[derive(Debug, Args)]
pub(crate) struct ViolationsArgs {
    /// Its name, or the beginning of it; without it, those of all sessions
    #[arg(value_name = "SESSION", required_if_eq("follow", "true"))]
    pub(crate) session: Option<String>,
    /// Go on until it ends
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print as JSON, one line for each
    #[arg(long)]
    pub(crate) json: bool,
}

/// Let something happen that waits for an answer, or list what waits
///
/// Without a number nothing is answered: what waits is listed.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The session, or the beginning of its name, and the number of the question; the number alone where one session has it
    #[arg(value_name = "[SESSION] [ID]", num_args = 0..=2)]
    pub(crate) which: Vec<String>,
    #[command(flatten)]
    pub(crate) lasting: Lasting,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// For how long a yes holds.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct Lasting {
    /// For what waits now (this is so without any of these)
    #[arg(long)]
    pub(crate) once: bool,
    /// For the same command too: the process that asks, or the same line
    #[arg(long)]
    pub(crate) command: bool,
    /// Until the session ends
    #[arg(long)]
    pub(crate) session: bool,
    /// For this time: 30s, 10m, 2h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = duration_ms)]
    pub(crate) for_ms: Option<u64>,
}

/// Say no to something that waits for an answer, or take a yes back
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The session, or the beginning of its name, and the number of the question; the number alone where one session has it
    #[arg(value_name = "[SESSION] ID", num_args = 1..=2, required = true)]
    pub(crate) which: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove what killed sessions left
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Also discard the changes of ended sessions that wait for a review
    #[arg(long)]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give something to a running session
///
/// A place becomes readable inside at its own path, as it would be by `--ref` at the start: what is denied in it stays denied. A
/// host can be reached as if `[network] allow` had named it, and `localhost:PORT` as if `host_ports` had.
#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) what: Wanted,
    /// Take it away again after this time: 30s, 10m, 2h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = duration_ms)]
    pub(crate) for_ms: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Wanted {
    /// Make this readable
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) read: Option<OsString>,
    /// Make this writable, where the session has somebody who carries writes out
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) write: Option<OsString>,
    /// Let this host be reached; without a port: 80 and 443
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) host: Option<String>,
}

/// Take away what was given to a running session
///
/// From now on a place cannot be opened. What is open already stays open: only the end of the session takes that away. Connections
/// to a host end at once.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The place that was given
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath, required_unless_present = "host")]
    pub(crate) path: Option<OsString>,
    /// The host that was given, as it was
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname, conflicts_with = "path")]
    pub(crate) host: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Hold back the tool calls of a running session's agent more, or less
///
/// It counts from the next tool call on. What the fence holds stays as it is.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// How much they are held back
    #[arg(value_name = "MODE")]
    pub(crate) mode: ModeArg,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show and change the sessions over HTTP, on loopback and over a unix socket
///
/// Only with the token, which is made anew at each start: it is in the URL that is printed, and in the file `serve/token` of
/// ringfence's state. No session needs this, and none ends with it.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Listen on this port of 127.0.0.1; without it, on any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

/// Print what happened in all sessions, or check that nothing of it was changed
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) verify: Option<AuditCommand>,
    /// Only sessions whose name begins with this
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only what speaks of this path or something below it
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: Option<OsString>,
    /// Only what happened since: 10m, 2h, 3d ago, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = since_ms)]
    pub(crate) since: Option<u64>,
    /// Print as JSON, one line for each event
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Check every line against the one before, and the last against the head
    ///
    /// Exits with 0 when the chain is whole, 1 when something was changed, cut or moved.
    Verify {
        /// Check that this line is among them: the NUMBER:HASH that an earlier check has printed
        #[arg(long, value_name = "NUMBER:HASH")]
        known: Option<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `90s`, `10m`, `2h`, `1d` in milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time: write 30s, 10m, 2h or 1d");
    let unit = match text.as_bytes().last() {
        Some(b's') => 1_000,
        Some(b'm') => 60_000,
        Some(b'h') => 3_600_000,
        Some(b'd') => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|ms| *ms > 0).ok_or_else(wrong)
}

/// How long a question may wait: a client's patience ends.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    let ms = duration_ms(text)?;
    if ms > 3_600_000 {
        return Err(format!("`{text}` is longer than an hour"));
    }
    Ok(Duration::from_millis(ms))
}

/// A claim by its short name, or by its text, which has more than one word.
pub(super) fn claim(text: &str) -> Result<String, String> {
    if Claim::KEYS.contains(&text) || text.contains(' ') {
        return Ok(text.to_owned());
    }
    Err(format!("there is no such claim; they are {}", Claim::KEYS.join(", ")))
}

/// A moment, in milliseconds since 1970.
fn since_ms(text: &str) -> Result<u64, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(duration_ms(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("10m", Some(600_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("0s", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("10", None),
            ("1é", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(duration_ms(text).ok(), expected, "{text}");
        }
        assert_eq!(since_ms("12"), Ok(12));
        assert!(since_ms("1h").is_ok_and(|moment| moment > 1_600_000_000_000));
    }

    #[test]
    fn claims() {
        assert_eq!(claim("denied-later").as_deref(), Ok("denied-later"));
        assert_eq!(claim("deny **/.env").as_deref(), Ok("deny **/.env"));
        assert!(claim("denied-latter").is_err_and(|why| why.contains("denied-later, protected-later")));
    }
}
