//! Answers to each kind of question, as data. Text and JSON are made from it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

#[cfg(target_os = "linux")]
use ringfence_egress::guard::never;
use ringfence_plan::set_inside;
#[cfg(target_os = "linux")]
use ringfence_session::names_socket;
use ringfence_surface::curated::env::{dangerous, passes_by_default};
use ringfence_surface::policy::EnvName;
use ringfence_surface::{
    AbsPath, Access, Because, Effect, Followed, HostError, HostTarget, Look as _, Outcome, PathFact, Role, Rule,
    Source, Sourced, Surface, follow,
};

use crate::error::Failure;
use crate::host::Recorder;

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// With a path.
    Read,
    /// With a path.
    Write,
    /// With a host, or with a port on the host's loopback.
    Reach,
    /// With a unix socket.
    Connect,
    /// With a variable.
    Pass,
}

impl Asked {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Reach => "reach",
            Self::Connect => "connect",
            Self::Pass => "pass",
        }
    }
}

impl From<Access> for Asked {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
        }
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) asked: Asked,
    /// A path with links followed, a host with its port, or a name.
    pub(crate) target: Vec<u8>,
    pub(crate) outcome: Outcome,
    /// The rule, in words.
    pub(crate) rule: String,
    /// Where it was written; what no rule speaks of has none.
    pub(crate) source: Option<Source>,
    /// The rule by which accept-edits asks first.
    pub(crate) asks: Option<Source>,
    /// What can be done about a refusal.
    pub(crate) remedy: Option<String>,
}

/// That accept-edits asks first, in words.
pub(crate) fn asks_first(source: &Source) -> String {
    format!("accept-edits asks first: {source}")
}

/// Answers about a path as the kernel would see it: links on the way are followed as far as the path exists.
pub(super) fn about_path(surface: &Surface, cwd: &AbsPath, path: &OsStr, access: Access) -> Result<Answer, Failure> {
    let mut live = Recorder::new(Vec::new());
    let found = found(cwd, path, &mut live)?;
    // A link that is closed by its own name is closed, wherever it leads.
    let is_closed = |link: &&AbsPath| matches!(surface.decide(link, access).because, Because::Rule(rule) if rule.effect < Effect::Write(Role::WorkingDir));
    let path = found.links.iter().find(is_closed).cloned().unwrap_or(found.path);
    let verdict = surface.decide(&path, access);
    let rule = match verdict.because {
        Because::Rule(rule) | Because::OnlyReadable(rule) => Some(rule),
        Because::View(_) => None,
    };
    let answer = Answer {
        asked: access.into(),
        target: path.as_bytes().to_vec(),
        outcome: verdict.outcome,
        rule: verdict.because.to_string(),
        source: rule.map(|rule| rule.source.clone()),
        asks: verdict.ask.map(|rule| rule.source.clone()),
        remedy: surface.remedy(&path, access, &verdict),
    };
    Ok(match rule.filter(|rule| verdict.is_allowed() && hides_the_host(rule, &path, &mut live)) {
        None => answer,
        Some(rule) => Answer {
            outcome: Outcome::Deny,
            rule: format!("{} is private inside the fence; the host's is not there", rule.pattern),
            asks: None,
            remedy: Some(format!("add \"{path}\" to `{access}` in [files]")),
            ..answer
        },
    })
}

fn real(cwd: &AbsPath, path: &OsStr, live: &mut Recorder) -> Result<AbsPath, Failure> {
    found(cwd, path, live).map(|found| found.path)
}

fn found(cwd: &AbsPath, path: &OsStr, live: &mut Recorder) -> Result<Followed, Failure> {
    if path.is_empty() {
        return Err(Failure::BadPath { reason: "it is empty".into() });
    }
    follow(cwd, path.as_bytes(), live).map_err(|why| Failure::BadPath { reason: why.to_string() })
}

/// `/tmp` inside is another one. Does the path name something of the host's that is therefore not there?
fn hides_the_host(rule: &Rule, path: &AbsPath, live: &mut Recorder) -> bool {
    let is_private = matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private));
    let Some(private) = rule.pattern.as_path().filter(|_| is_private) else { return false };
    // Devices are the same inside; what counts is a file below a private directory.
    let below = path.ancestors().take_while(|above| above != private).last();
    below.is_some_and(|first| live.path(&first) != PathFact::Missing) && private.as_bytes() != b"/proc"
}

/// Answers about a host; one that is this machine's own loopback is a question about its port.
pub(super) fn about_host(surface: &Surface, host: &str) -> Result<Answer, Failure> {
    let target = match HostTarget::parse(host) {
        Ok(target) => target,
        Err(HostError::Loopback(_)) => return Ok(about_port(surface, loopback_port(host))),
        Err(source) => return Err(Failure::Host { source }),
    };
    let shown = target.to_string();
    if let Some(class) = target.address().and_then(never) {
        let rule = format!("it is {class}");
        return Ok(denied(Asked::Reach, shown.as_bytes(), rule, "none: this is opened by no policy".to_owned()));
    }
    Ok(match surface.decide_host(&target) {
        Some(entry) => {
            let private = surface.decide_private(&target);
            let private = private.map(|entry| format!(", private \"{}\"", entry.value)).unwrap_or_default();
            allowed(Asked::Reach, shown.as_bytes(), format!("allow \"{}\"{private}", entry.value), entry)
        }
        None => {
            let rule = "no entry of `allow` in [network] covers it".to_owned();
            denied(Asked::Reach, shown.as_bytes(), rule, surface.to_reach(&shown))
        }
    })
}

/// Who guards the way out is not there, and neither is a way out.
#[cfg(not(target_os = "linux"))]
fn never(_: std::net::IpAddr) -> Option<&'static str> {
    None
}

/// The port of a loopback address that was read without a complaint about its port. Without brackets more than one colon
/// belongs to the address.
fn loopback_port(host: &str) -> u16 {
    let port = match host.rsplit_once("]:") {
        Some((_, port)) => Some(port),
        None => host.split_once(':').map(|(_, port)| port),
    };
    port.and_then(|port| port.parse().ok()).unwrap_or(443)
}

/// Answers about a service on the host's loopback. Inside the fence that name is the fence's own.
fn about_port(surface: &Surface, port: u16) -> Answer {
    let target = format!("localhost:{port}");
    match surface.decide_host_port(port) {
        Some(entry) => allowed(Asked::Reach, target.as_bytes(), format!("host_ports {port}"), entry),
        None => denied(
            Asked::Reach,
            target.as_bytes(),
            "no entry of `host_ports` in [network] names it, and loopback inside the fence is its own".to_owned(),
            format!("add {port} to `host_ports` in [network]"),
        ),
    }
}

/// Answers about a unix socket of the host.
pub(super) fn about_socket(surface: &Surface, cwd: &AbsPath, path: &OsStr) -> Result<Answer, Failure> {
    let path = real(cwd, path, &mut Recorder::new(Vec::new()))?;
    Ok(match surface.decide_socket(&path) {
        Some(entry) => allowed(Asked::Connect, path.as_bytes(), format!("sockets \"{path}\""), entry),
        None => denied(
            Asked::Connect,
            path.as_bytes(),
            "no entry of `sockets` in [network] names it".to_owned(),
            format!("add \"{path}\" to `sockets` in [network]"),
        ),
    })
}

/// Answers about a variable of the caller's environment.
pub(super) fn about_variable(surface: &Surface, name: &str) -> Result<Answer, Failure> {
    if EnvName::new(name).is_none() {
        return Err(Failure::VariableName { name: name.to_owned() });
    }
    let bytes = name.as_bytes();
    if let Some(value) = set_inside(bytes) {
        let rule = format!("ringfence sets it inside: {value}");
        return Ok(denied(Asked::Pass, bytes, rule, "none: the caller's does not take its place".to_owned()));
    }
    if let Some(entry) = named_socket(surface, name) {
        return Ok(allowed(Asked::Pass, bytes, format!("sockets \"{}\"", entry.value), entry));
    }
    if let Some(entry) = surface.decide_injected(bytes) {
        let rule = format!("its value stays outside, a placeholder is passed: inject {}", entry.value);
        let remedy = format!("speak to http://{} inside; the header is added on the way out", entry.value.host);
        return Ok(denied(Asked::Pass, bytes, rule, remedy));
    }
    if surface.decide_variable(bytes) == Outcome::Deny {
        let rule = match dangerous(bytes) {
            Some(row) => format!("no entry of `pass` in [env] names it: {}", row.reason),
            None => "no entry of `pass` in [env] names it".to_owned(),
        };
        let remedy = format!("add \"{name}\" to `pass` in [env], or for one run: --env {name}");
        return Ok(denied(Asked::Pass, bytes, rule, remedy));
    }
    let named = surface.env().iter().find(|entry| entry.value.means(bytes));
    Ok(match (named, passes_by_default(bytes)) {
        (Some(entry), _) => allowed(Asked::Pass, bytes, format!("pass \"{}\"", entry.value.as_str()), entry),
        (None, row) => Answer {
            asked: Asked::Pass,
            target: bytes.to_vec(),
            outcome: Outcome::Allow,
            rule: format!("pass \"{}\"", row.map_or(name, |row| row.pattern)),
            source: row.map(|row| Source::Table { name: "environment", reason: row.reason }),
            asks: None,
            remedy: None,
        },
    })
}

/// Nothing is passed elsewhere.
#[cfg(not(target_os = "linux"))]
fn named_socket<'s>(_: &'s Surface, _: &str) -> Option<&'s Sourced<AbsPath>> {
    None
}

/// The socket that a variable names now, if a policy does too: then it passes.
#[cfg(target_os = "linux")]
fn named_socket<'s>(surface: &'s Surface, name: &str) -> Option<&'s Sourced<AbsPath>> {
    let value = std::env::var_os(name)?;
    let is_named = |entry: &Sourced<AbsPath>| {
        names_socket(value.as_bytes(), &mut Recorder::new(Vec::new()), |path| *path == entry.value).is_some()
    };
    surface.reach().sockets.iter().find(|entry| is_named(entry))
}

fn allowed<T>(asked: Asked, target: &[u8], rule: String, entry: &Sourced<T>) -> Answer {
    let (outcome, source) = (Outcome::Allow, Some(entry.source.clone()));
    Answer { asked, target: target.to_vec(), outcome, rule, source, asks: None, remedy: None }
}

fn denied(asked: Asked, target: &[u8], rule: String, remedy: String) -> Answer {
    let (outcome, remedy) = (Outcome::Deny, Some(remedy));
    Answer { asked, target: target.to_vec(), outcome, rule, source: None, asks: None, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, port: u16) {
        assert!(matches!(HostTarget::parse(host), Err(HostError::Loopback(_))), "{host} is no loopback");
        assert_eq!(loopback_port(host), port, "{host}");
    }

    #[test]
    fn ports_of_loopback() {
        check("localhost:5432", 5432);
        check("127.0.0.1:5432", 5432);
        check("127.1.2.3:1", 1);
        check("[::1]:5432", 5432);
        check("[::1]", 443);
        check("::1", 443);
        check("localhost", 443);
        check("LOCALHOST.:80", 80);
        check("db.localhost:5432", 5432);
        check("0.0.0.0:8080", 8080);
        assert!(HostTarget::parse("localhost:0").is_err_and(|e| !matches!(e, HostError::Loopback(_))));
    }
}
