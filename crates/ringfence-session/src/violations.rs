//! What a session tried and was not let do: one type, whichever layer said no, and one stream of them.
//!
//! The stream tells each kind once and counts the rest. Whoever is inside chooses how often and under how many names something is
//! tried, so everything here has a bound, and the room is divided by what was denied and by which rule: a flood of one kind
//! neither fills the memory nor hides what is denied by another rule meanwhile.

mod stream;

use ringfence_egress::guard::never;
use ringfence_egress::{Attempt, Refusal, Transport, Why};
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
    /// What allows it in later sessions, where the remedy is more than that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy_later: Option<String>,
    /// It stands for others that came faster than they are written down.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_rest: bool,
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
            remedy_later: None,
            is_rest: false,
        }
    }

    /// Something that was stopped on the way out of this session; `beside` says what a list of hosts needs that is new.
    #[must_use]
    pub fn of_refusal(refusal: Refusal, session: &str, beside: &str) -> Self {
        let Refusal { attempt, why } = &refusal;
        let access = if matches!(attempt, Attempt::Name(_)) { Deed::Resolve } else { Deed::Connect };
        let host = match attempt {
            Attempt::Name(host) | Attempt::Reach { to: host, .. } | Attempt::Tls(host) | Attempt::Proxy(Some(host)) => {
                Some(host.clone())
            }
            _ => None,
        };
        let path = match attempt {
            Attempt::Socket(path) => Some(Bytes::new(path.as_bytes())),
            _ => None,
        };
        let can_be_named = !matches!(attempt, Attempt::Reach { by: Transport::Udp, .. });
        let mut violation = Self { path, ..Self::new(Layer::Egress, access, attempt.to_string(), why.to_string()) };
        if let Some(host) = &host {
            let shown = Shown(host.as_bytes());
            let address = HostTarget::parse(host).ok().and_then(|target| target.address());
            match why {
                Why::NotNamed if can_be_named => match address.and_then(never) {
                    Some(class) => violation.remedy = Some(format!("none: {class} is opened by no policy")),
                    None => {
                        let later = format!("add \"{shown}\" to `allow` in [network]{beside}");
                        violation.remedy = Some(format!("ringfence grant {session} --host {shown}, or {later}"));
                        violation.remedy_later = Some(later);
                    }
                },
                // The owner of the name chooses the address: only the user knows whether that is right.
                why if why.is_lifted_by_private() => {
                    violation.remedy = Some(format!("if that is right, add \"{shown}\" to `private` in [network]"));
                }
                _ => {}
            }
        }
        violation.host = host;
        violation
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
        let remedy = self.remedy_later.clone().or_else(|| self.remedy.clone());
        Self { remedy, ..self.clone() }.line(times)
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

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_egress::guard::AddressClass;
    use ringfence_surface::AbsPath;

    fn refused(attempt: Attempt, why: Why) -> Violation {
        Violation::of_refusal(Refusal { attempt, why }, "abcd", "")
    }

    fn name(name: &str) -> Attempt {
        Attempt::Name(name.to_owned())
    }

    fn reach(by: Transport, to: &str) -> Attempt {
        Attempt::Reach { by, to: to.to_owned() }
    }

    fn socket(path: &str) -> Attempt {
        Attempt::Socket(AbsPath::lexical(path.as_bytes()).unwrap())
    }

    fn guarded(address: &str, class: AddressClass) -> Why {
        Why::Guarded { address: address.parse().unwrap(), class }
    }

    /// K14: what was stopped on the way out says what allows it, where something does.
    #[test]
    fn k14_a_refused_host_has_a_remedy() {
        let named = refused(name("example.com"), Why::NotNamed);
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
        assert!(
            refused(reach(Transport::Tcp, "1.1.1.1:80"), Why::NotNamed)
                .remedy
                .is_some_and(|remedy| remedy.contains("1.1.1.1:80"))
        );
        let refusal = Refusal { attempt: name("example.com"), why: Why::NotNamed };
        let first = Violation::of_refusal(refusal, "abcd", ", in a new list with \"github\"");
        assert!(first.line_afterwards(1).ends_with("to `allow` in [network], in a new list with \"github\""));
        // To name it would open nothing.
        let closed = refused(reach(Transport::Tcp, "169.254.169.254:80"), Why::NotNamed).remedy;
        assert_eq!(closed.as_deref(), Some("none: a cloud metadata address is opened by no policy"));
        // A name of the company's own network, and one that leads where nobody is led.
        let private =
            refused(reach(Transport::Tcp, "git.corp.example:443"), guarded("10.1.2.3", AddressClass::Private));
        let remedy = "if that is right, add \"git.corp.example:443\" to `private` in [network]";
        assert_eq!(private.remedy.as_deref(), Some(remedy));
        for (attempt, why) in [
            (reach(Transport::Tcp, "a.b:443"), guarded("169.254.169.254", AddressClass::Metadata)),
            (reach(Transport::Udp, "1.1.1.1:53"), Why::NotNamed),
            (reach(Transport::Tcp, "a.b:443"), Why::Content("TLS names c.d".to_owned())),
            (Attempt::Connection, Why::TooManyConnections),
        ] {
            assert_eq!(refused(attempt.clone(), why).remedy, None, "{attempt}");
        }
        let path = refused(socket("/run/x"), Why::Failed("no".to_owned())).path;
        assert_eq!(path, Some(Bytes::Text("/run/x".into())));
    }

    /// K14: nothing that was tried reaches a terminal as anything but text.
    #[test]
    fn k14_a_line_moves_no_cursor() {
        let mut violation = refused(name("\u{1b}[2Jx"), Why::Content("w\u{202e}hy\n\r".to_owned()));
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
        let long = refused(socket(&format!("/run/{}/name", "x".repeat(4_000))), Why::NotNamed);
        let line = long.short_line(long.line(3), 3, "abcd");
        assert!(line.chars().count() < LONGEST_LINE, "{line}");
        assert!(line.starts_with("socket /run/xxx") && line.contains("/name (3 times): the policy"), "{line}");
        assert!(line.ends_with("`ringfence violations abcd` says all of it"), "{line}");
        let usual = refused(name("example.com"), Why::NotNamed);
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
