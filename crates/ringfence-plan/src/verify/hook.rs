//! What the hook answers to a deed, asked as a client asks it.

use ringfence_surface::command::Git;
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Surface};

use super::shape::Shape;
use super::{Came, Deed, One};
use crate::hook::{Dialect, Ground, ToolCall, is_plain};
use crate::json::Json;
use crate::rung::Rung;

/// What the hook answers: what it lets pass is done. A client says paths as text, and has no tool for most deeds.
pub fn hook(surface: &Surface, shape: &Shape, home: &AbsPath, deed: &Deed) -> Came {
    let Deed::One(one, place) = deed else { return Came::NotTried };
    let (tool, more) = match one {
        One::Read => ("Read", None),
        One::Write | One::Truncate | One::Create => ("Write", Some(("content", Json::text("x")))),
        _ => return Came::NotTried,
    };
    let Ok(path) = std::str::from_utf8(place.as_bytes()) else { return Came::NotTried };
    let Ok(cwd) = std::str::from_utf8(surface.workdir().as_bytes()) else { return Came::NotTried };
    // What two clients could read differently is refused whatever it means, which is more than any rule asks.
    if !is_plain(path) || !is_plain(cwd) {
        return Came::NotTried;
    }
    let mut input = vec![("file_path".to_owned(), Json::text(path))];
    input.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let payload = Json::map([
        ("hook_event_name", Json::text("PreToolUse")),
        ("tool_name", Json::text(tool)),
        ("cwd", Json::text(cwd)),
        ("tool_input", Json::Map(input)),
    ]);
    let ground = Ground { surface, mode: Mode::Auto, rung: Rung::Native, home, grants: &[], git: Git::AsItIs };
    let judged = ToolCall::read(Dialect::Claude, payload.to_string().as_bytes())
        .and_then(|call| call.judge(&ground, &mut &*shape));
    match judged {
        Ok(()) => Came::Done,
        // Links are looked at one by one, which is more than the kernel does.
        Err(_) if shape.follow(place).is_none_or(|found| !found.links.is_empty()) => Came::NotTried,
        // As the kernel says it.
        Err(_) => Came::Refused(EACCES),
    }
}

const EACCES: i32 = 13;
