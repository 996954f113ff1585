//! The Surface's answer to a tool call.

use ringfence_surface::command::{Class, Git, classify, named_files};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Access, Because, HostTarget, Look, Surface, follow};

use super::ask::Ask;
use super::tools::Runs;
use super::{Refusal, Refused, ToolCall};
use crate::rung::Rung;

/// The session that a call is made in.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// What may be touched.
    pub surface: &'a Surface,
    /// How much tool calls are held back.
    pub mode: Mode,
    /// How the fence is built.
    pub rung: Rung,
    /// The home directory inside.
    pub home: &'a AbsPath,
    /// What was given to the session for reading since it began.
    pub grants: &'a [AbsPath],
    /// Whether git is kept from running what a repository names.
    pub git: Git,
}

impl ToolCall {
    /// The line of shell that it runs, where it runs one.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        let mut lines = self.asks.iter().filter_map(|ask| if let Ask::Command(line) = ask { Some(line) } else { None });
        // Whoever says yes to one says nothing of another.
        lines.next().filter(|_| lines.next().is_none()).map(String::as_str)
    }

    /// May it run? `look` sees what the client sees.
    ///
    /// # Errors
    /// [`Refusal`] of the first thing that may not be.
    pub fn judge(&self, ground: &Ground<'_>, look: &mut dyn Look) -> Result<(), Refusal> {
        if self.runs == Runs::Unseen && ground.mode == Mode::AcceptEdits {
            let why = "it may run commands that are not seen here, which mode accept-edits does not let pass";
            return Err(Refusal::new(Refused::Tool, why, AUTO));
        }
        self.asks.iter().try_for_each(|ask| match ask {
            Ask::Path { below, raw, access } => {
                meanings(below.as_deref(), raw, ground.home).iter().try_for_each(|raw| {
                    let place = Place { start: &self.cwd, raw, access: *access };
                    place.judge(ground, look)
                })
            }
            Ask::Command(line) => {
                command(line, ground)?;
                files(line, &self.cwd, ground, look)
            }
            Ask::Hosts(targets) => hosts(targets, ground.surface),
            Ask::Loopback(port) => loopback(*port, ground),
        })
    }
}

/// What a path may mean: with a tilde the client's home, or a file of that name.
fn meanings(below: Option<&str>, raw: &str, home: &AbsPath) -> Vec<Vec<u8>> {
    let starts = match below.filter(|_| !raw.starts_with('/')) {
        Some(below) => {
            meanings(None, below, home).into_iter().map(|start| [&start, b"/".as_slice()].concat()).collect()
        }
        None => vec![Vec::new()],
    };
    let mut paths: Vec<Vec<u8>> = starts.iter().map(|start| [start, raw.as_bytes()].concat()).collect();
    if let Some(rest) = raw.strip_prefix('~') {
        paths.push([home.as_bytes(), rest.as_bytes()].concat());
    }
    paths
}

/// A path as a client says it.
struct Place<'a> {
    start: &'a AbsPath,
    raw: &'a [u8],
    access: Access,
}

impl Place<'_> {
    fn judge(&self, ground: &Ground<'_>, look: &mut dyn Look) -> Result<(), Refusal> {
        // The links of the current directory are followed too: it is as the client says it.
        let whole = if self.raw.first() == Some(&b'/') {
            self.raw.to_vec()
        } else {
            [self.start.as_bytes(), b"/", self.raw].concat()
        };
        self.followed(&whole, ground, look)?;
        if whole.split(|b| *b == b'/').any(|name| name == b"..") {
            // The kernel goes up from where a link leads; most clients strike out the name before. It must be well either way.
            let struck = AbsPath::lexical(&whole).map_err(|why| self.bad(&why.to_string()))?;
            self.followed(struck.as_bytes(), ground, look)?;
        }
        Ok(())
    }

    fn bad(&self, why: &str) -> Refusal {
        Refusal::new(refused(self.access), why, "name the path without links")
    }

    fn followed(&self, whole: &[u8], ground: &Ground<'_>, look: &mut dyn Look) -> Result<(), Refusal> {
        let mut follow = |path: &[u8]| follow(&AbsPath::root(), path, look).map_err(|why| self.bad(&why.to_string()));
        let found = follow(whole)?;
        let changing = found.links.iter().chain([&found.path]).find(|path| differs_by_process(path));
        if let Some(path) = changing {
            return Err(self.bad(&format!("{path} is something else for each process")));
        }
        self.one(&found.path, ground)?;
        if self.access == Access::Write && !found.links.is_empty() {
            // A client may put a new file in the place of a link.
            let slash = whole.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
            let (above, name) = whole.split_at(slash);
            if !matches!(name, b"" | b"." | b"..") {
                self.one(&follow(above)?.path.child(name), ground)?;
            }
        }
        Ok(())
    }

    fn one(&self, path: &AbsPath, ground: &Ground<'_>) -> Result<(), Refusal> {
        let (surface, access) = (ground.surface, self.access);
        let verdict = surface.decide(path, access);
        let source = match verdict.because {
            Because::Rule(rule) | Because::OnlyReadable(rule) => format!(", {}", rule.source),
            Because::View(_) => String::new(),
        };
        let refusal = |why: String, remedy: String| Refusal {
            path: Some(path.clone()),
            ..Refusal::new(refused(access), why, &remedy)
        };
        let is_given = access == Access::Read && is_given(path, verdict.because, ground);
        if !verdict.is_allowed() && !is_given {
            let remedy = surface.remedy(path, access, &verdict).unwrap_or_default();
            return Err(refusal(format!("{access} of {path} is denied: {}{source}", verdict.because), remedy));
        }
        match verdict.ask {
            Some(rule) if ground.mode == Mode::AcceptEdits => {
                let why = format!("{path} is changed by its package manager, not by hand: {rule}, {}", rule.source);
                Err(refusal(why, format!("leave it to the package manager, or {AUTO}")))
            }
            _ => Ok(()),
        }
    }
}

/// Was it given since? What is denied inside of something given stays denied, unless that as a whole was given in spite of it.
fn is_given(path: &AbsPath, because: Because<'_>, ground: &Ground<'_>) -> bool {
    ground.grants.iter().filter(|grant| path.is_within(grant)).any(|grant| match because {
        Because::View(_) => true,
        Because::Rule(_) | Because::OnlyReadable(_) => ground.surface.decide(grant, Access::Read).because == because,
    })
}

/// What to do where only the mode is in the way.
const AUTO: &str = "the user can start the session with `--mode auto`, where the fence alone decides";

fn refused(access: Access) -> Refused {
    match access {
        Access::Read => Refused::Read,
        Access::Write => Refused::Write,
    }
}

/// `/proc/self` is the process that looks: the hook sees its own, the client another.
fn differs_by_process(path: &AbsPath) -> bool {
    let mut names = path.components();
    match (names.next(), names.next()) {
        (Some(b"proc"), Some(name)) => matches!(name, b"self" | b"thread-self") || name.iter().all(u8::is_ascii_digit),
        (Some(b"dev"), Some(name)) => matches!(name, b"fd" | b"stdin" | b"stdout" | b"stderr"),
        _ => false,
    }
}

fn command(line: &str, ground: &Ground<'_>) -> Result<(), Refusal> {
    if line.contains('\0') {
        return Err(Refusal::input("the command holds a NUL byte"));
    }
    if ground.mode == Mode::Auto {
        return Ok(());
    }
    match classify(line.as_bytes(), ground.git) {
        Class::ReadOnly => Ok(()),
        Class::Mutating(mutation) => {
            let why = format!("in mode accept-edits only commands run that are proved to change nothing: {mutation}");
            Err(Refusal::new(Refused::Command, why, AUTO))
        }
    }
}

/// What a command names and a rule denies is refused here, where that can be said. Only a rule counts: a word that starts with a
/// slash may be no path at all. In mode auto the fence alone decides about commands.
fn files(line: &str, cwd: &AbsPath, ground: &Ground<'_>, look: &mut dyn Look) -> Result<(), Refusal> {
    if ground.mode == Mode::Auto {
        return Ok(());
    }
    let is_denied = |path: &AbsPath| {
        let verdict = ground.surface.decide(path, Access::Read);
        !verdict.is_allowed() && matches!(verdict.because, Because::Rule(_))
    };
    for word in named_files(line.as_bytes()) {
        let place = Place { start: cwd, raw: &word, access: Access::Read };
        if let Err(refusal) = place.judge(ground, look)
            && refusal.path.as_ref().is_some_and(is_denied)
        {
            return Err(refusal);
        }
    }
    Ok(())
}

fn hosts(targets: &[HostTarget], surface: &Surface) -> Result<(), Refusal> {
    match targets {
        _ if targets.iter().any(|target| surface.decide_host(target).is_some()) => Ok(()),
        [target, ..] => {
            let remedy = format!("the user can {}", surface.to_reach(&target.to_string()));
            Err(Refusal::new(Refused::Host, format!("{target} is not among the hosts that may be reached"), &remedy))
        }
        [] => Err(Refusal::input("the address names no host")),
    }
}

/// Where the session has a network of its own, its loopback is its own too: what answers there runs inside.
fn loopback(port: u16, ground: &Ground<'_>) -> Result<(), Refusal> {
    if ground.rung.has_view() || ground.surface.decide_host_port(port).is_some() {
        return Ok(());
    }
    let remedy = format!("the user can add {port} to `host_ports` in [network]");
    Err(Refusal::new(Refused::Host, format!("port {port} of this host may not be reached"), &remedy))
}
