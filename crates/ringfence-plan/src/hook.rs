//! A client's tool call, judged as the kernel would judge it.
//!
//! [`ToolCall::read`] turns what a client says before a tool runs into questions: paths with what is done to them, lines of
//! shell, hosts. [`ToolCall::judge`] asks the Surface. A tool that is not known, a field of a form that is not known, text that
//! two parsers could read differently: each is refused. Clients take a hook that fails for a yes, so there is no third answer.
//!
//! This is a courtesy: it refuses early, with a reason and a remedy. What holds is the fence.

mod ask;
mod claude;
mod codex;
mod gemini;
mod judge;
mod names;
mod patch;
mod shape;
mod tools;
mod url;
mod value;

use ringfence_surface::{AbsPath, Client, Shown};

use ask::Ask;
use tools::{Runs, Tool};
use value::Value;

pub use judge::Ground;

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
}

impl From<Client> for Dialect {
    fn from(client: Client) -> Self {
        match client {
            Client::Claude => Self::Claude,
            Client::Codex => Self::Codex,
            Client::Gemini => Self::Gemini,
        }
    }
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Qwen];

    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    fn tables(self) -> &'static [&'static [Tool]] {
        match self {
            Self::Claude => &[claude::TOOLS],
            Self::Codex => &[codex::TOOLS],
            Self::Gemini => &[gemini::SHARED, gemini::GEMINI],
            Self::Qwen => &[gemini::SHARED, gemini::QWEN],
        }
    }

    /// What the names of other programs' tools begin with.
    fn foreign(self) -> &'static str {
        if self == Self::Gemini { "mcp_" } else { "mcp__" }
    }

    fn event(self, name: &str) -> Option<Event> {
        match (self, name) {
            (Self::Gemini, "BeforeTool") => Some(Event::BeforeTool),
            (Self::Claude | Self::Codex | Self::Qwen, "PreToolUse") => Some(Event::BeforeTool),
            (Self::Claude, "PermissionRequest") => Some(Event::Permission),
            _ => None,
        }
    }
}

/// What the client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A tool is about to run.
    BeforeTool,
    /// A tool is about to run, and somebody would be asked whether it may.
    Permission,
}

/// What is about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// What the client asks.
    pub event: Event,
    /// Which tool, as the client calls it.
    pub tool: String,
    cwd: AbsPath,
    asks: Vec<Ask>,
    runs: Runs,
}

/// Why a tool does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of refusal, for a record of them.
    pub kind: Refused,
    /// Why, in one line.
    pub why: String,
    /// What can be done about it, in one line.
    pub remedy: Option<String>,
    /// Which path, where it is about one.
    pub path: Option<AbsPath>,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refused {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// A line of shell.
    Command,
    /// A host.
    Host,
    /// The tool as a whole.
    Tool,
    /// What the client said was not understood.
    Input,
}

impl Refused {
    /// Its name in a record.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "sandbox_read_blocked",
            Self::Write => "sandbox_write_blocked",
            Self::Command => "sandbox_command_blocked",
            Self::Host => "sandbox_host_blocked",
            Self::Tool => "sandbox_tool_blocked",
            Self::Input => "sandbox_input_blocked",
        }
    }
}

impl Refusal {
    pub(crate) fn new(kind: Refused, why: impl Into<String>, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        Self { kind, why: why.into(), remedy, path: None }
    }

    /// What the client said is not understood.
    pub fn input(why: impl Into<String>) -> Self {
        Self::new(Refused::Input, why, "")
    }

    /// One line for the client, which shows it to the model.
    pub fn line(&self, tool: Option<&str>) -> String {
        let short = |text: &str| Shown(text.chars().take(LONGEST).collect::<String>().as_bytes()).to_string();
        let tool = tool.map_or_else(String::new, |tool| format!("{}: ", short(tool)));
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!("; {}", short(remedy)));
        format!("ringfence: {tool}{}{remedy}", short(&self.why))
    }
}

/// Longer words are cut in messages: somebody may send a megabyte as the name of a tool.
const LONGEST: usize = 1_000;

const NEWER: &str = "use a tool that ringfence knows, or ask the user for a ringfence that knows this one";

/// Is a path plain enough to be judged at all?
pub(crate) fn is_plain(path: &str) -> bool {
    ask::check_path(path).is_ok()
}

impl ToolCall {
    /// Reads what a client says.
    ///
    /// # Errors
    /// [`Refusal`] for whatever is not exactly a tool call of that client.
    pub fn read(dialect: Dialect, payload: &[u8]) -> Result<Self, Refusal> {
        let bad = |why: &str| Refusal::input(format!("the call was not understood: {why}"));
        let whole = Value::parse(payload).map_err(|why| bad(&why.to_string()))?;
        let text = |name: &str| {
            whole.get(name).and_then(Value::as_text).ok_or_else(|| bad(&format!("`{name}` is missing or no text")))
        };
        let name = text("hook_event_name")?;
        let event = dialect.event(name).ok_or_else(|| bad(&format!("nothing is known of the event `{name}`")))?;
        let tool = text("tool_name")?.to_owned();
        let cwd = AbsPath::lexical(text("cwd")?.as_bytes()).map_err(|why| bad(&format!("`cwd`: {why}")))?;
        // Links in it are followed with every path that begins there, so it is kept as it was said.
        if cwd.as_bytes() != text("cwd")?.as_bytes() {
            return Err(bad("`cwd` is no plain path"));
        }
        let Some(Value::Map(input)) = whole.get("tool_input") else {
            return Err(bad("`tool_input` is missing or no object"));
        };
        let (asks, runs) = match tools::find(dialect.tables(), &tool) {
            Some(known) => (ask::known(known, input)?, known.runs),
            None if tool.starts_with(dialect.foreign()) => (shape::foreign(&tool, input)?, Runs::Nothing),
            None => {
                let why = format!("ringfence does not know the tool `{}`, so it is not run", Shown(tool.as_bytes()));
                return Err(Refusal::new(Refused::Tool, why, NEWER));
            }
        };
        Ok(Self { event, tool, cwd, asks, runs })
    }
}

#[cfg(test)]
mod tests;
