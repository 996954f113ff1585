//! What a session tried and was not let do: one type, whichever layer said no, and one stream of them.
//!
//! The stream tells each kind once and counts the rest. Whoever is inside chooses how often and under how many names something is
//! tried, so everything here has a bound, and the room is divided by what was denied and by which rule: a flood of one kind
//! neither fills the memory nor hides what is denied by another rule meanwhile.

mod stream;

use ringfence_egress::Refusal;
use ringfence_egress::guard::never;
use ringfence_surface::{HostTarget, Shown};
use serde::{Deserialize, Serialize};

use crate::audit::What;
use crate::learned::Learned;
use crate::text::Bytes;
use crate::verdicts::Said;

pub(crate) use stream::Stream;

/// Which layer said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The way out: names, connections, packets.
    Egress,
    /// The broker, which carries out the calls that change something.
    Broker,
    /// The hook of an agent's client. It runs inside, so this is what was said and not what was seen.
    Hook,
}

impl Layer {
    /// The word for it in output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Broker => "broker",
            Self::Hook => "hook",
        }
    }

    fn egress() -> Self {
        Self::Egress
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// To read.
    Read,
    /// To change.
    Write,
    /// To find out the address of a name.
    Resolve,
    /// To reach somebody.
    Connect,
    /// To run a command or a tool.
    Run,
    /// Something else.
    Other,
}

impl Deed {
    /// The word for it in output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Run => "run",
            Self::Other => "other",
        }
    }

    fn other() -> Self {
        Self::Other
    }
}

/// Something that was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What was tried, in words: `write /p/.git/hooks/x`, `name example.com`, `tcp 1.1.1.1:80`.
    pub tried: String,
    /// Why it was denied.
    pub why: String,
    /// By which layer.
    #[serde(default = "Layer::egress")]
    pub layer: Layer,
    /// What it would have been.
    #[serde(default = "Deed::other")]
    pub access: Deed,
    /// The path as resolved, or that of the socket.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<Bytes>,
    /// The host, with its port where one is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// The rule that decided, as it was written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// Where that was written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// The process that tried, by its number inside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
    /// The program it ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<Bytes>,
    /// Its command line, or the line that a client wanted to run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<Bytes>,
    /// What allows it, ready to be typed, or the line of a policy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy: Option<String>,
}

/// One with how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// What.
    #[serde(flatten)]
    pub violation: Violation,
    /// How often, so far.
    pub times: u64,
}

/// What was denied in a session, as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How often something was denied.
    pub denied: u64,
    /// Each kind that is kept, in the order in which each came first.
    pub kinds: Vec<Counted>,
    /// For each of them, whether the user's terminal has shown it already.
    pub shown: Vec<bool>,
    /// How often something was denied that is not among them.
    pub more: u64,
    /// Which watch ended the session, where one did.
    pub ended_by: Option<String>,
    /// Lines for the user that there was no time for.
    pub untold: Vec<String>,
    /// What was looked for and done in it, where that was to be learned.
    pub learned: Option<Learned>,
}

impl Summary {
    /// Of a session in which nothing was denied.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            denied: 0,
            kinds: Vec::new(),
            shown: Vec::new(),
            more: 0,
            ended_by: None,
            untold: Vec::new(),
            learned: None,
        }
    }
}

impl Violation {
    /// Plain: what was tried, and why not.
    fn new(layer: Layer, access: Deed, tried: String, why: String) -> Self {
        Self {
            tried,
            why,
            layer,
            access,
            path: None,
            host: None,
            rule: None,
            source: None,
            pid: None,
            program: None,
            command: None,
            remedy: None,
        }
    }

    /// Something that was stopped on the way out of this session; `beside` says what a list of hosts needs that is new.
    #[must_use]
    pub fn of_refusal(refusal: Refusal, session: &str, beside: &str) -> Self {
        let (thing, rest) = refusal.what.split_once(' ').unwrap_or((refusal.what.as_str(), ""));
        let access = match thing {
            "name" => Deed::Resolve,
            _ => Deed::Connect,
        };
        let (mut host, mut path) = (None, None);
        match thing {
            // What one of these was made of was checked: a name of a host, an address, and a number behind them.
            "name" | "tcp" | "udp" | "tls" | "proxy" if !rest.is_empty() => host = Some(rest.to_owned()),
            "socket" => path = Some(Bytes::new(rest.as_bytes())),
            _ => {}
        }
        let is_unnamed = refusal.why == UNNAMED && thing != "udp";
        let remedy = host.as_deref().and_then(|host| {
            let shown = Shown(host.as_bytes());
            let allow = || {
                let address = HostTarget::parse(host).ok().and_then(|target| target.address());
                match address.and_then(never) {
                    Some(reason) => format!("none: {reason} is opened by no policy"),
                    None => {
                        format!("{GRANT}{session} --host {shown}{OR}add \"{shown}\" to `allow` in [network]{beside}")
                    }
                }
            };
            // Whoever answers for the name chooses the address: only the user knows whether that is right.
            let private = || format!("if that is right, add \"{shown}\" to `private` in [network]");
            let is_unlisted = refusal.why.ends_with(ringfence_egress::UNLISTED);
            is_unnamed.then(allow).or_else(|| is_unlisted.then(private))
        });
        let Refusal { what, why } = refusal;
        Self { host, path, remedy, ..Self::new(Layer::Egress, access, what, why) }
    }

    /// What a line of the audit says of something that was denied.
    #[must_use]
    pub fn of_event(what: What) -> Option<Counted> {
        match what {
            What::Violation(counted) => Some(counted),
            What::Verdict { tool, allowed: false, why, path, remedy } => {
                let (kind, why) = why.split_once(": ").unwrap_or((why.as_str(), ""));
                let (kind, why) = (kind.to_owned(), why.to_owned());
                let violation = Self::of_verdict(&Said { tool, allowed: false, kind, why, path, remedy, ask: None })?;
                Some(Counted { violation, times: 1 })
            }
            _ => None,
        }
    }

    /// A tool call that the hook did not let run; `None` where it did.
    #[must_use]
    pub fn of_verdict(said: &Said) -> Option<Self> {
        if said.allowed {
            return None;
        }
        let access = match said.kind.as_str() {
            "sandbox_read_blocked" => Deed::Read,
            "sandbox_write_blocked" => Deed::Write,
            "sandbox_host_blocked" => Deed::Connect,
            "sandbox_command_blocked" | "sandbox_tool_blocked" => Deed::Run,
            _ => Deed::Other,
        };
        let path = said.path.as_ref().map(|path| format!(" {}", path.shown())).unwrap_or_default();
        let tried = format!("tool {}{path}", said.tool);
        let mut violation = Self::new(Layer::Hook, access, tried, said.why.clone());
        (violation.path, violation.remedy) = (said.path.clone(), said.remedy.clone());
        Some(violation)
    }

    /// Does it stand for others that came faster than they are told?
    #[must_use]
    pub fn is_rest(&self) -> bool {
        self.why == stream::FASTER
    }

    /// One line for a terminal, with nothing in it that moves a cursor.
    #[must_use]
    pub fn line(&self, times: u64) -> String {
        let shown = |text: &str| Shown(text.as_bytes()).to_string();
        let times = if times == 1 { String::new() } else { format!(" ({times} times)") };
        let by = match (&self.program, self.pid) {
            (Some(program), Some(pid)) => format!(" by {} ({pid})", program.shown()),
            (Some(program), None) => format!(" by {}", program.shown()),
            (None, Some(pid)) => format!(" by process {pid}"),
            (None, None) => String::new(),
        };
        let rule = match (&self.rule, &self.source) {
            (Some(rule), Some(source)) => format!(" [{}, {}]", shown(rule), shown(source)),
            (Some(one), None) | (None, Some(one)) => format!(" [{}]", shown(one)),
            (None, None) => String::new(),
        };
        // That there is none is said with why.
        let remedy = self.remedy.as_deref().map(|remedy| remedy.strip_prefix("none: ").unwrap_or(remedy));
        let remedy = remedy.map(|remedy| format!("; {}", shown(remedy))).unwrap_or_default();
        format!("{}{times}{by}: {}{rule}{remedy}", shown(&self.tried), shown(&self.why))
    }

    /// The same within a bound. A path has up to 4 KiB and stands in a line three times: of a longer line the beginning and the end
    /// of what was tried are left, and where the rest is listed.
    #[must_use]
    pub fn short_line(&self, line: String, times: u64, session: &str) -> String {
        if line.chars().count() <= LONGEST_LINE {
            return line;
        }
        let short = |text: &str| middle_cut(&Shown(text.as_bytes()).to_string(), LONGEST_LINE / 3);
        let times = if times == 1 { String::new() } else { format!(" ({times} times)") };
        let (tried, why) = (short(&self.tried), short(&self.why));
        format!("{tried}{times}: {why}; `ringfence violations {}` says all of it", Shown(session.as_bytes()))
    }

    /// The same for a session that has ended: nothing can be given to it any more.
    #[must_use]
    pub fn line_afterwards(&self, times: u64) -> String {
        let after = |remedy: &str| {
            let rest = remedy.strip_prefix(GRANT).and_then(|rest| rest.split_once(OR)).map(|(_, rest)| rest);
            rest.unwrap_or(remedy).to_owned()
        };
        Self { remedy: self.remedy.as_deref().map(after), ..self.clone() }.line(times)
    }
}

/// A longer line is cut where it is shown on a terminal.
const LONGEST_LINE: usize = 600;

/// A line as it is printed at the end of a session: a long one is cut in the middle, and `command` shows all of it.
pub fn closing_line(line: String, command: &str) -> String {
    if line.chars().count() <= LONGEST_LINE {
        return line;
    }
    format!("{}; `{command}` shows all of it", middle_cut(&line, LONGEST_LINE))
}

/// The beginning and the end of a text that is too long.
fn middle_cut(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(most / 2).collect();
    let end: String = text.chars().skip(length - most / 2).collect();
    format!("{beginning}…{end}")
}

/// What a remedy begins with that helps a session which runs, and what follows it.
const GRANT: &str = "ringfence grant ";
const OR: &str = ", or ";

/// What the way out says of a host that is not in the policy.
const UNNAMED: &str = "the policy does not name it";

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_egress::UNLISTED;

    fn refused(what: &str, why: &str) -> Violation {
        Violation::of_refusal(Refusal { what: what.into(), why: why.into() }, "abcd", "")
    }

    /// K14: what was stopped on the way out says what allows it, where something does.
    #[test]
    fn k14_a_refused_host_has_a_remedy() {
        let named = refused("name example.com", UNNAMED);
        assert_eq!((named.access, named.host.as_deref()), (Deed::Resolve, Some("example.com")));
        assert_eq!(
            named.remedy.as_deref(),
            Some("ringfence grant abcd --host example.com, or add \"example.com\" to `allow` in [network]")
        );
        assert!(
            named
                .line(1)
                .ends_with("; ringfence grant abcd --host example.com, or add \"example.com\" to `allow` in [network]")
        );
        // Nothing can be given to what has ended.
        assert!(named.line_afterwards(1).ends_with("name it; add \"example.com\" to `allow` in [network]"));
        assert!(refused("tcp 1.1.1.1:80", UNNAMED).remedy.is_some_and(|remedy| remedy.contains("1.1.1.1:80")));
        let refusal = Refusal { what: "name example.com".into(), why: UNNAMED.into() };
        let first = Violation::of_refusal(refusal, "abcd", ", in a new list with \"github\"");
        assert!(first.line_afterwards(1).ends_with("to `allow` in [network], in a new list with \"github\""));
        // To name it would open nothing.
        let closed = refused("tcp 169.254.169.254:80", UNNAMED).remedy;
        assert_eq!(closed.as_deref(), Some("none: a cloud metadata address is opened by no policy"));
        // A name of the company's own network, and one that leads where nobody is led.
        let private =
            refused("tcp git.corp.example:443", &format!("its address 10.1.2.3 is a private address{UNLISTED}"));
        let remedy = "if that is right, add \"git.corp.example:443\" to `private` in [network]";
        assert_eq!(private.remedy.as_deref(), Some(remedy));
        for (what, why) in [
            ("tcp a.b:443", "its address 169.254.169.254 is a cloud metadata address"),
            ("udp 1.1.1.1:53", UNNAMED),
            ("tcp a.b:443", "TLS names c.d"),
            ("connection", "too many"),
        ] {
            assert_eq!(refused(what, why).remedy, None, "{what}");
        }
        assert_eq!(refused("socket /run/x", "no").path, Some(Bytes::Text("/run/x".into())));
    }

    /// K14: nothing that was tried reaches a terminal as anything but text.
    #[test]
    fn k14_a_line_moves_no_cursor() {
        let mut violation = refused("name \u{1b}[2Jx", "w\u{202e}hy\n\r");
        violation.program = Some(Bytes::new(b"/bin/\x1b]0;x\x07"));
        violation.pid = Some(7);
        violation.remedy = Some("none: a\nb".into());
        violation.rule = Some("\u{9b}31m".into());
        let line = violation.line(2);
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{line:?}");
        assert!(line.contains("(2 times) by /bin/") && line.ends_with("; a\\nb"), "{line}");
    }

    /// However long a path is, a line for a terminal is short, and says where the whole of it is.
    #[test]
    fn g8_a_line_is_bounded() {
        let path = format!("socket /run/{}/name", "x".repeat(4_000));
        let long = refused(&path, UNNAMED);
        let line = long.short_line(long.line(3), 3, "abcd");
        assert!(line.chars().count() < LONGEST_LINE, "{line}");
        assert!(line.starts_with("socket /run/xxx") && line.contains("/name (3 times): the policy"), "{line}");
        assert!(line.ends_with("`ringfence violations abcd` says all of it"), "{line}");
        let usual = refused("name example.com", UNNAMED);
        assert_eq!(usual.short_line(usual.line(1), 1, "abcd"), usual.line(1));
    }

    /// K14: lines of the audit from before are understood.
    #[test]
    fn k14_old_lines_are_read() {
        let old = r#"{"tried":"name a.b","why":"no","times":3}"#;
        let read: Counted = serde_json::from_str(old).unwrap();
        assert_eq!((read.times, read.violation.layer, read.violation.access), (3, Layer::Egress, Deed::Other));
    }
}
