//! `ringfence hook CLIENT`: judges one tool call of an agent's client, in the client's own contract.
//!
//! Clients take every failure of a hook for a yes: a crash, a time-out, an exit code of 1. So there are two answers only. What
//! may run: nothing is said, and the code is 0. What may not: code 2, and one line on the error output, the only answer that
//! every client honours. Whatever goes wrong here is the second, also what hangs: a watchdog answers before the client's patience
//! ends. The call is read to its end first, since a client that cannot write it may take that for a failure.

mod watchdog;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Duration;

use ringfence_plan::HOOK_SECONDS;
#[cfg(target_os = "linux")]
use ringfence_plan::hook::Event;
use ringfence_plan::hook::{Dialect, Refusal, ToolCall};
use ringfence_surface::AbsPath;

use watchdog::Watchdog;

/// The code that blocks a tool in every client.
const BLOCKED: u8 = 2;

/// Larger calls are refused: a client that writes such a file has a shell for it.
const MOST_BYTES: u64 = 16 << 20;

/// What a client's settings say behind `ringfence hook`.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    dialect: Dialect,
    /// Where the session's record is.
    given: AbsPath,
    /// How long the client waits.
    patience: Duration,
}

/// A call that may run.
#[cfg(target_os = "linux")]
struct Allowed {
    tool: String,
    event: Event,
    by: By,
}

/// Elsewhere there are no sessions, and so there is no such call.
#[cfg(not(target_os = "linux"))]
enum Allowed {}

/// Who lets a call run.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The session's rules.
    Rules,
    /// The user, who was asked.
    User,
}

/// A call that may not run, and the tool's name where it is known.
struct Blocked {
    tool: Option<String>,
    refusal: Refusal,
}

impl From<Refusal> for Blocked {
    fn from(refusal: Refusal) -> Self {
        Self { tool: None, refusal }
    }
}

/// Answers one call. `words` is the whole command line.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    // Nothing may be printed before the answer, and a panic must not be one.
    panic::set_hook(Box::new(|_| {}));
    // Nor must a signal: who interrupts a client means the tool, not the hook. Without a descriptor for it they are not blocked.
    // They stay blocked to the very end: one that arrives between the answer and the end would take the answer back.
    #[cfg(target_os = "linux")]
    std::mem::forget(ringfence_session::terminal::Signals::block());
    let arguments = arguments(words);
    let patience = arguments.as_ref().map_or(Duration::from_secs(HOOK_SECONDS), |known| known.patience);
    let watchdog = Watchdog::start(patience);
    let judged = panic::catch_unwind(AssertUnwindSafe(|| {
        let payload = read_all(&mut io::stdin().lock());
        if watchdog.is_none() {
            return Err(Refusal::input("no thread can be started to watch the time").into());
        }
        judge(arguments.as_ref().map_err(Clone::clone)?, &payload?)
    }));
    let judged = judged.unwrap_or_else(|_| Err(Refusal::input("ringfence failed, so the tool is not run").into()));
    if let Some(watchdog) = watchdog {
        watchdog.call_off();
    }
    if let Ok(arguments) = &arguments {
        tell(arguments, &judged);
    }
    // Without arguments nothing was allowed.
    answer(judged.map(|allowed| arguments.ok().and_then(|arguments| allowed.said(arguments.dialect))))
}

/// Has the supervisor write it down. Nothing waits for that.
#[cfg(target_os = "linux")]
fn tell(arguments: &Arguments, judged: &Result<Allowed, Blocked>) {
    use ringfence_session::text::Bytes;
    use ringfence_session::verdicts::{self, Said};

    let short = |text: &str| text.chars().take(500).collect::<String>();
    let said = match judged {
        Ok(Allowed { tool, .. }) => {
            let kind = "tool_allowed".to_owned();
            Said { tool: short(tool), allowed: true, kind, why: String::new(), path: None, remedy: None, ask: None }
        }
        Err(Blocked { tool, refusal: Refusal { kind, why, path, remedy } }) => Said {
            tool: short(tool.as_deref().unwrap_or_default()),
            allowed: false,
            kind: kind.word().to_owned(),
            why: short(why),
            path: path.as_ref().map(|path| Bytes::new(path.as_bytes())),
            remedy: remedy.as_deref().map(short),
            ask: None,
        },
    };
    // Nobody may be there to hear it.
    let _ = verdicts::tell(&arguments.given, &said);
}

#[cfg(not(target_os = "linux"))]
fn tell(_: &Arguments, _: &Result<Allowed, Blocked>) {
    // Nobody is there to hear it.
}

impl Allowed {
    /// What the client is told, where it waits for more than silence.
    #[cfg(target_os = "linux")]
    fn said(&self, dialect: Dialect) -> Option<&'static [u8]> {
        // Without an answer Claude Code would ask somebody, or ask the hook again.
        const ALLOWED: &[u8] =
            br#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#;
        const APPROVED: &[u8] = br#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"ringfence: the user said yes"}}"#;
        match self.event {
            Event::Permission => Some(ALLOWED),
            Event::BeforeTool => Some(APPROVED).filter(|_| dialect == Dialect::Claude && self.by == By::User),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn said(&self, _: Dialect) -> Option<&'static [u8]> {
        match *self {}
    }
}

fn answer(said: Result<Option<&[u8]>, Blocked>) -> ExitCode {
    let blocked = match said {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(answer)) => match io::stdout().write_all(answer).and_then(|()| io::stdout().flush()) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(_) => Refusal::input("the answer cannot be written").into(),
        },
        Err(blocked) => blocked,
    };
    block(&blocked.refusal.line(blocked.tool.as_deref()));
    ExitCode::from(BLOCKED)
}

/// Says why, in one write. Nobody is left to tell when it fails; the code still blocks where that is enough.
fn block(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn arguments(words: &[OsString]) -> Result<Arguments, Refusal> {
    let wrong = |why: &str| Refusal::input(format!("the hook's command line is wrong: {why}"));
    let mut rest = words.get(2..).unwrap_or_default().iter();
    let client = rest.next().and_then(|word| word.to_str()).unwrap_or_default();
    let dialect = Dialect::ALL.into_iter().find(|known| known.word() == client);
    let dialect = dialect.ok_or_else(|| wrong("a client is needed: claude, codex, gemini or qwen"))?;
    let (mut given, mut seconds) = (None, HOOK_SECONDS);
    while let Some(option) = rest.next() {
        let value = rest.next().ok_or_else(|| wrong("an option needs a value"))?;
        match option.to_str() {
            Some("--given") => given = Some(absolute(value).ok_or_else(|| wrong("--given is an absolute path"))?),
            Some("--timeout") => {
                let number = value.to_str().and_then(|value| value.parse().ok());
                seconds = number.filter(|n| (1..=3_600).contains(n)).ok_or_else(|| wrong("--timeout is in seconds"))?;
            }
            _ => return Err(wrong("nothing but --given and --timeout is known")),
        }
    }
    // A client starts it by the path that its settings name, which is beside the record.
    let beside = || absolute(words.first()?)?.parent();
    let given = given.or_else(beside).ok_or_else(|| {
        Refusal::input("the hook does not know its session: name it by its whole path in the session, or use --given")
    })?;
    Ok(Arguments { dialect, given, patience: Duration::from_secs(seconds) })
}

fn absolute(word: &OsStr) -> Option<AbsPath> {
    AbsPath::lexical(word.as_bytes()).ok()
}

/// All that the client writes, as far as it is kept.
fn read_all(input: &mut impl io::Read) -> Result<Vec<u8>, Refusal> {
    let mut payload = Vec::new();
    let failed = |_| Refusal::input("the call cannot be read");
    input.take(MOST_BYTES + 1).read_to_end(&mut payload).map_err(failed)?;
    if payload.len() as u64 <= MOST_BYTES {
        return Ok(payload);
    }
    drop(payload);
    let mut rest = [0; 1 << 16];
    while input.read(&mut rest).map_err(failed)? > 0 {}
    Err(Refusal::input(format!("the call is larger than {} MiB", MOST_BYTES >> 20)))
}

#[cfg(target_os = "linux")]
fn judge(arguments: &Arguments, payload: &[u8]) -> Result<Allowed, Blocked> {
    use ringfence_plan::hook::Ground;
    use ringfence_session::given;
    use ringfence_session::record::Record;
    use ringfence_surface::policy::Mode;

    let call = ToolCall::read(arguments.dialect, payload)?;
    let blocked = |refusal| Blocked { tool: Some(call.tool.clone()), refusal };
    let record = Record::read(&arguments.given.join(given::RECORD));
    let record = record.map_err(|why| blocked(Refusal::input(format!("there is no session to judge by: {why}"))))?;
    let ground = Ground {
        surface: &record.surface,
        mode: record.mode,
        rung: record.rung,
        home: &record.home,
        grants: &given::places(&given::grants(&arguments.given).unwrap_or_default()),
        git: git(|name| std::env::var_os(name)),
    };
    let mut look = crate::host::Recorder::new(Vec::new());
    let judged = match call.judge(&ground, &mut look) {
        Ok(()) => Ok(By::Rules),
        Err(refusal) => match given::is_asked(&arguments.given).then(|| asked(&arguments.given, &call, &refusal)) {
            // The user said yes to the line. What else the call touches is judged as ever.
            Some(Some(true)) => call.judge(&Ground { mode: Mode::Auto, ..ground }, &mut look).map(|()| By::User),
            Some(Some(false)) => {
                let remedy =
                    "the user was asked and did not say yes: do something else, or tell the user why it is needed";
                Err(Refusal { remedy: Some(remedy.to_owned()), ..refusal })
            }
            _ => Err(refusal),
        },
    };
    let judged = judged.map_err(blocked);
    // The process ends with the answer. To take a few thousand rules apart first would only keep the client waiting.
    std::mem::forget(record);
    judged.map(|by| Allowed { event: call.event, tool: call.tool, by })
}

/// Asks the user whether a line may run that only the mode holds back; nothing where there is nothing to ask.
#[cfg(target_os = "linux")]
fn asked(given: &AbsPath, call: &ToolCall, refusal: &Refusal) -> Option<bool> {
    use ringfence_plan::hook::Refused;
    use ringfence_session::verdicts::{self, Said};

    // What the user cannot be shown whole is not asked.
    let line = call.line().filter(|line| refusal.kind == Refused::Command && line.len() <= LONGEST_LINE)?;
    let said = Said {
        tool: call.tool.chars().take(100).collect(),
        allowed: false,
        kind: refusal.kind.word().to_owned(),
        why: refusal.why.chars().take(500).collect(),
        path: None,
        remedy: None,
        ask: Some(line.to_owned()),
    };
    Some(verdicts::ask(given, &said).unwrap_or(false))
}

/// Longer lines are not asked about.
#[cfg(target_os = "linux")]
const LONGEST_LINE: usize = 1_000;

/// Elsewhere there are no sessions.
#[cfg(not(target_os = "linux"))]
fn judge(arguments: &Arguments, payload: &[u8]) -> Result<Allowed, Blocked> {
    ToolCall::read(arguments.dialect, payload)?;
    Err(Refusal::input(format!("{} holds no session: only Linux can hold a fence", arguments.given)).into())
}

/// Does the environment, which the client's shell has too, keep git from running what a repository names?
#[cfg(target_os = "linux")]
fn git(variable: impl Fn(&str) -> Option<OsString>) -> ringfence_surface::command::Git {
    use ringfence_surface::command::{GIT_NO_LOCKS, GIT_QUIET, Git};

    let count = variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse::<u32>().ok()).unwrap_or(0);
    // The last of a name counts.
    let value = |name: &str| {
        let is_it = |at: &u32| variable(&format!("GIT_CONFIG_KEY_{at}")).is_some_and(|key| key == name);
        variable(&format!("GIT_CONFIG_VALUE_{}", (0..count.min(100)).rev().find(is_it)?))
    };
    let is_quiet = GIT_QUIET.iter().all(|(name, wanted)| value(name).is_some_and(|value| value == *wanted));
    let (locks, wanted) = GIT_NO_LOCKS;
    if is_quiet && variable(locks).is_some_and(|value| value == wanted) { Git::Quiet } else { Git::AsItIs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, u64)>) {
        let got = arguments(&words(line)).ok();
        let got = got.map(|known| (known.given.to_string(), known.patience.as_secs()));
        assert_eq!(got, expected.map(|(given, seconds)| (given.to_owned(), seconds)), "{line}");
    }

    #[test]
    fn command_lines() {
        check("/s/given/ringfence hook claude", Some(("/s/given", 10)));
        check("/s/given/ringfence hook codex --timeout 60", Some(("/s/given", 60)));
        check("ringfence hook gemini --given /g", Some(("/g", 10)));
        check("/s/given/ringfence hook qwen --given /g --timeout 1", Some(("/g", 1)));
        check("ringfence hook claude", None);
        check("./ringfence hook claude", None);
        check("/s/given/ringfence hook", None);
        check("/s/given/ringfence hook opencode", None);
        check("/s/given/ringfence hook claude --given", None);
        check("/s/given/ringfence hook claude --given g", None);
        check("/s/given/ringfence hook claude --timeout 0", None);
        check("/s/given/ringfence hook claude --mode auto", None);
    }

    #[test]
    fn what_is_too_large_is_read_to_its_end_and_not_kept() {
        let mut input = io::repeat(b' ').take(MOST_BYTES);
        assert_eq!(read_all(&mut input).unwrap().len() as u64, MOST_BYTES);
        let mut input = io::repeat(b' ').take(MOST_BYTES * 3);
        assert!(read_all(&mut input).is_err());
        assert_eq!(input.limit(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn git_is_quiet_only_where_every_setting_is_there() {
        use ringfence_surface::command::{GIT_QUIET, Git};
        let mut variables: Vec<(String, String)> = vec![("GIT_OPTIONAL_LOCKS".into(), "0".into())];
        for (at, (name, value)) in GIT_QUIET.iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{at}"), (*name).into()));
            variables.push((format!("GIT_CONFIG_VALUE_{at}"), (*value).into()));
        }
        variables.push(("GIT_CONFIG_COUNT".into(), GIT_QUIET.len().to_string()));
        let asked = |variables: &[(String, String)]| {
            git(|name| variables.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.into()))
        };
        assert_eq!(asked(&variables), Git::Quiet);
        for missing in 0..variables.len() {
            let mut fewer = variables.clone();
            fewer.remove(missing);
            assert_eq!(asked(&fewer), Git::AsItIs, "{missing}");
        }
        // A later one of the same name undoes it.
        let count = GIT_QUIET.len();
        variables.push((format!("GIT_CONFIG_KEY_{count}"), GIT_QUIET[0].0.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{count}"), "true".into()));
        variables.push(("GIT_CONFIG_COUNT".into(), (count + 1).to_string()));
        assert_eq!(asked(&variables), Git::AsItIs);
    }
}
