//! The user's own sign-in, copied for one session.
//!
//! Only the file that holds it is read. What renews it stays outside: a client that renewed its sign-in inside would make the
//! user's own void, and an agent that took it along would have one for good. So the copy ends when its token does.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_surface::policy::Credentials;
use ringfence_surface::{AbsPath, Access, AgentChoice, Client, Shown, Surface, follow};
use serde_json::Value;

use crate::host::{Recorder, os_path, read_bounded};

/// A file of the home, and what it holds.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// No sign-in is longer.
const MOST_BYTES: u64 = 1 << 20;

/// What renews a sign-in, in the words of any client.
const RENEWS: [&str; 2] = ["refreshToken", "refresh_token"];
/// When it ends, in milliseconds.
const ENDS: [&str; 2] = ["expiresAt", "expiry_date"];

/// The files to write into the session's home, and what the user should know.
pub(super) fn copy(client: Client, choice: &AgentChoice, surface: &Surface) -> (Files, Vec<String>) {
    if choice.credentials.value != Credentials::Copy {
        return (Vec::new(), Vec::new());
    }
    let has_key = client.provider().keys.iter().any(|key| std::env::var_os(key).is_some_and(|value| !value.is_empty()));
    let (variable, default, inside) = match client {
        Client::Claude => ("CLAUDE_CONFIG_DIR", ".claude", ".claude/.credentials.json"),
        Client::Codex => ("CODEX_HOME", ".codex", ".codex/auth.json"),
        Client::Gemini => ("GEMINI_CLI_HOME", "", ".gemini/oauth_creds.json"),
    };
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return (Vec::new(), Vec::new()) };
    let name = inside.rsplit('/').next().unwrap_or(inside);
    let path = match (client, std::env::var_os(variable).map(PathBuf::from)) {
        (Client::Gemini, named) => named.unwrap_or(home).join(inside),
        (_, named) => named.unwrap_or_else(|| home.join(default)).join(name),
    };
    let shown = Shown(path.as_os_str().as_encoded_bytes()).to_string();
    let real = match real(&path, surface) {
        Ok(real) => real,
        Err(why) => return (Vec::new(), vec![format!("ringfence: the sign-in in {shown} is not copied: {why}")]),
    };
    let found = read_bounded(&real, MOST_BYTES).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(mut value) = found else {
        let said = format!("ringfence: there is no sign-in to copy in {shown}");
        return (Vec::new(), if has_key { Vec::new() } else { vec![said] });
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let mut said = Vec::new();
    if without_renewal(&mut value).is_some_and(|ends| u128::from(ends) <= now) {
        let word = client.word();
        said.push(format!("ringfence: the sign-in in {shown} has expired; start {word} outside once, which renews it"));
    }
    (vec![(inside, value.to_string().into_bytes())], said)
}

/// Where the file really is. An agent that can write the file, or a link on the way to it, would choose what is copied.
fn real(path: &Path, surface: &Surface) -> Result<PathBuf, &'static str> {
    let look = &mut Recorder::new(Vec::new());
    let found = follow(&AbsPath::root(), path.as_os_str().as_bytes(), look).map_err(|_| "its path leads nowhere")?;
    let is_the_agents = |path: &AbsPath| surface.decide(path, Access::Write).is_allowed();
    if found.links.iter().chain([&found.path]).any(is_the_agents) {
        return Err("the agent can write there, and could choose what is copied");
    }
    Ok(os_path(&found.path).into())
}

/// Takes away what renews a sign-in, wherever it stands. Returns when the sign-in ends, if that is said.
fn without_renewal(value: &mut Value) -> Option<u64> {
    let mut ends = None;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if RENEWS.contains(&name.as_str()) {
                    // A client may insist on the field.
                    *field = Value::String(String::new());
                } else if ENDS.contains(&name.as_str()) {
                    ends = ends.or(field.as_u64());
                } else {
                    ends = ends.or(without_renewal(field));
                }
            }
        }
        Value::Array(items) => ends = items.iter_mut().filter_map(without_renewal).next(),
        _ => {}
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_renews_a_sign_in_stays_outside() {
        for (found, expected, ends) in [
            (
                r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":12}}"#,
                r#"{"claudeAiOauth":{"accessToken":"a","expiresAt":12,"refreshToken":""}}"#,
                Some(12),
            ),
            (
                r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"a","refresh_token":"r"}}"#,
                r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"a","refresh_token":""}}"#,
                None,
            ),
            (
                r#"{"access_token":"a","refresh_token":"r","expiry_date":7}"#,
                r#"{"access_token":"a","expiry_date":7,"refresh_token":""}"#,
                Some(7),
            ),
            (r#"[{"refreshToken":{"deep":"r"}}]"#, r#"[{"refreshToken":""}]"#, None),
        ] {
            let mut value: Value = serde_json::from_str(found).unwrap();
            assert_eq!(without_renewal(&mut value), ends, "{found}");
            assert_eq!(value, serde_json::from_str::<Value>(expected).unwrap());
        }
    }
}
