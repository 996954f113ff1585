//! The agent clients whose settings are known, and what was chosen for one session.

use crate::path::AbsPath;
use crate::policy::{Credentials, Mode, MountMode, SurfaceMode};
use crate::source::Source;
use crate::surface::Sourced;

/// A client that settings and hooks can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// What is known of a client's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// The group of hosts that the model answers from.
    pub group: &'static str,
    /// The host that a key is for.
    pub host: &'static str,
    /// What follows the host in the address of the model.
    pub path: &'static str,
    /// The header that carries the key.
    pub header: &'static str,
    /// What stands before the key in it.
    pub prefix: &'static str,
    /// The variables that may hold a key, the usual one first.
    pub keys: &'static [&'static str],
    /// The variable that names another address for the model.
    pub base_url: &'static str,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// The client of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.word() == name)
    }

    /// Its name on the command line, which is that of its program.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Where its model is.
    pub fn provider(self) -> Provider {
        match self {
            Self::Claude => Provider {
                group: "anthropic",
                host: "api.anthropic.com",
                path: "",
                header: "x-api-key",
                prefix: "",
                keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
                base_url: "ANTHROPIC_BASE_URL",
            },
            Self::Codex => Provider {
                group: "openai",
                host: "api.openai.com",
                path: "/v1",
                header: "authorization",
                prefix: "Bearer ",
                keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
                base_url: "OPENAI_BASE_URL",
            },
            Self::Gemini => Provider {
                group: "google-ai",
                host: "generativelanguage.googleapis.com",
                path: "",
                header: "x-goog-api-key",
                prefix: "",
                keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                base_url: "GOOGLE_GEMINI_BASE_URL",
            },
        }
    }
}

/// What was chosen for the agent of one session. What it may touch is in the Surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentChoice {
    /// As `--agent` says.
    pub name: String,
    /// Which client that is, if it is one that settings can be written for.
    pub client: Option<Client>,
    /// The command line that starts it.
    pub command: Vec<String>,
    /// How much its own tool calls are held back.
    pub mode: Sourced<Mode>,
    /// What it has to sign in with.
    pub credentials: Sourced<Credentials>,
    /// Where its program really is, if it was found.
    pub program: Option<AbsPath>,
    /// What was made readable so that the program runs.
    pub reads: Vec<AbsPath>,
    /// The address of its model inside, where that is not the usual one.
    pub base_url: Option<String>,
    /// How it runs in a container.
    pub container: ContainerChoice,
}

/// How an agent runs in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerChoice {
    /// The image; `host` for the host's own programs.
    pub image: Option<Sourced<String>>,
    /// Further mounts, as they were written.
    pub mounts: Vec<ContainerMountChoice>,
    /// Whether they go along with those of the Surface.
    pub surface_mode: Sourced<SurfaceMode>,
}

/// A mount of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerMountChoice {
    /// On the host, links followed.
    pub source: AbsPath,
    /// In the container.
    pub destination: AbsPath,
    /// What it permits.
    pub mode: MountMode,
    /// Where it was written.
    pub written: Source,
}
