//! What an agent's client is started with: arguments, variables and files, from the same Surface as every other layer.
//!
//! A client's own settings and hooks are the innermost layer and the weakest: a client may have mistakes, and its shell runs
//! any program. They make a refusal come early and with a reason. Nothing else rests on them.

mod claude;
mod codex;
mod gemini;

use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, AgentChoice, Client, Effect, Sense, Surface};

pub use claude::claude;
pub use codex::codex;
pub use gemini::gemini;

use crate::preamble::preamble;

/// What is known of the session that the client starts in.
#[derive(Debug, Clone)]
pub struct AgentGround<'a> {
    /// What was chosen.
    pub choice: &'a AgentChoice,
    /// The session's home.
    pub home: &'a AbsPath,
    /// What is remembered from session to session, if anything is.
    pub history: Option<&'a AbsPath>,
    /// The ringfence program, where the client finds it.
    pub ringfence: &'a AbsPath,
    /// A name for the hook that nobody can guess.
    pub hook_name: &'a str,
    /// Whether files can be shown in `/etc`.
    pub etc: Etc,
    /// Who the client runs as.
    pub user: ClientUser,
    /// The end of the key that the client finds in its environment.
    pub key_end: Option<&'a str>,
    /// For how long a command that is held back waits for the user's answer, in seconds, where the user is asked.
    pub asks: Option<u64>,
}

/// Can a file be shown in `/etc`, where clients look for an administrator's settings?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Etc {
    /// In a view of its own.
    Shown,
    /// Without a view there is the host's own only.
    Host,
}

/// Who a client runs as, by its own eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientUser {
    /// An ordinary user.
    Ordinary,
    /// User 0, if only of a namespace.
    Root,
}

/// What a client is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlan {
    /// Arguments that come before all others.
    pub arguments: Vec<String>,
    /// Variables that are set.
    pub variables: Vec<(&'static str, Vec<u8>)>,
    /// Files that are written.
    pub files: Vec<AgentFile>,
    /// Directories of the home that lead to what is remembered, each with its name there.
    pub remembered: Vec<(&'static str, &'static str)>,
    /// Paths that the client's settings cannot name: they are no text. The other layers hold them.
    pub unsaid: Vec<AbsPath>,
}

/// A file that is written for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// Where.
    pub place: FilePlace,
    /// What it says.
    pub content: String,
}

/// Where a client finds a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlace {
    /// In the session's home, where the client itself may change it.
    Home(&'static str),
    /// In the session's home, read-only.
    Frozen(&'static str),
    /// At this path in the view, read-only.
    Shown(&'static str),
    /// Beside the home, where nothing inside can write, under this name.
    Given(&'static str),
}

/// What a client is started with.
pub fn agent(surface: &Surface, client: Client, ground: &AgentGround<'_>) -> AgentPlan {
    match client {
        Client::Claude => claude(surface, ground),
        Client::Codex => codex(surface, ground),
        Client::Gemini => gemini(surface, ground),
    }
}

/// How long a hook may take, in seconds. The hook itself answers before that.
pub const HOOK_SECONDS: u64 = 10;

impl AgentGround<'_> {
    /// The command line of the hook, for a shell.
    pub fn hook(&self, client: Client) -> String {
        let timeout = self.asks.map(|_| format!(" --timeout {}", self.hook_seconds())).unwrap_or_default();
        format!("{} hook {}{timeout}", shell_word(self.ringfence), client.word())
    }

    /// How long the hook may take, in seconds. It answers after four fifths of that, so a question may wait for less.
    pub fn hook_seconds(&self) -> u64 {
        self.asks.map_or(HOOK_SECONDS, |wait| wait.saturating_add(HOOK_SECONDS).saturating_mul(5) / 4)
    }

    fn mode(&self) -> Mode {
        self.choice.mode.value
    }

    /// What the model is told.
    fn introduction(&self, surface: &Surface) -> String {
        let mut text = preamble(surface, self.mode());
        if self.asks.is_some() && self.mode() == Mode::AcceptEdits {
            text.push_str(
                "\nA command that changes something waits until the user has said yes or no to it. Run such commands one at a \
                 time, as plainly as you can, so that the user can judge them. A no is final: do something else.\n",
            );
        }
        text
    }
}

/// A path as one word of a shell. The path of our own program is chosen by us; one that is no text cannot be said.
fn shell_word(path: &AbsPath) -> String {
    let text = std::str::from_utf8(path.as_bytes()).unwrap_or("ringfence");
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@".contains(&b);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Programs whose only use is the network. To deny them to the client's shell is advice: the network itself is what is closed.
const NETWORK_PROGRAMS: [&str; 10] = ["curl", "ftp", "nc", "ncat", "scp", "sftp", "socat", "ssh", "telnet", "wget"];

/// The places of a Surface as text.
struct Places {
    writes: Vec<String>,
    reads: Vec<String>,
    denied: Vec<String>,
    protected: Vec<String>,
    unsaid: Vec<AbsPath>,
}

impl Places {
    /// Single places only. What has an exception is left to the hook: most clients cannot say one.
    fn of(surface: &Surface) -> Self {
        let mut places = Self {
            writes: Vec::new(),
            reads: Vec::new(),
            denied: Vec::new(),
            protected: Vec::new(),
            unsaid: Vec::new(),
        };
        let rules = surface.rules();
        let has_exceptions =
            |effect: Effect| rules.iter().any(|rule| rule.effect == effect && rule.sense == Sense::Exception);
        let (denies_all, protects_all) = (!has_exceptions(Effect::Deny), !has_exceptions(Effect::Protect));
        for rule in rules.iter().filter(|rule| rule.sense == Sense::Rule) {
            let Some(path) = rule.pattern.as_path() else { continue };
            let list = match rule.effect {
                Effect::Write(_) => &mut places.writes,
                Effect::Read(_) => &mut places.reads,
                Effect::Deny if rule.source.is_written() && denies_all => &mut places.denied,
                Effect::Protect if rule.source.is_written() && protects_all => &mut places.protected,
                _ => continue,
            };
            match std::str::from_utf8(path.as_bytes()) {
                Ok(text) => list.push(text.to_owned()),
                Err(_) => places.unsaid.push(path.clone()),
            }
        }
        for list in [&mut places.writes, &mut places.reads, &mut places.denied, &mut places.protected] {
            list.sort();
            list.dedup();
        }
        let Self { writes, reads, .. } = &mut places;
        // Devices and the list of processes are no directories to work in.
        writes.retain(|path| !is_made(path));
        reads.retain(|path| !writes.contains(path));
        places
    }
}

/// What exists only inside is no place of the host's.
fn is_made(path: &str) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|dir| path == *dir || path.starts_with(&format!("{dir}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        for (path, expected) in [
            ("/s/1/given/ringfence", "/s/1/given/ringfence"),
            ("/a b/ringfence", "'/a b/ringfence'"),
            ("/a'b$(x)/ringfence", "'/a'\\''b$(x)/ringfence'"),
        ] {
            assert_eq!(shell_word(&AbsPath::lexical(path.as_bytes()).unwrap()), expected);
        }
    }
}
