//! Who is answered: whoever asks for this server by its own name, from no other page, and has read the token.
//!
//! A page on the web can make a browser send requests here. By DNS rebinding it can even read the answers, under a name of its
//! own that has come to mean this machine: that name then stands in `Host`. So only the names of loopback are answered, whatever
//! they resolve to, and a request that says which page it comes from must say ours.

use ringfence_session::text::is_same;

use super::answer::Answer;
use super::request::Request;

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// Over loopback, on this port.
    Loopback(u16),
    /// Over the unix socket, from the same user or root.
    Socket,
}

/// The names of loopback, as `Host` has them without brackets.
const NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// Refuses whoever asks under another name, or from another page.
pub(super) fn check_origin(request: &Request, door: Door) -> Result<(), Answer> {
    let refused = |why: &str| Err(Answer::problem(403, why, Some("ask for 127.0.0.1, with the port that was printed")));
    let is_port = |port: Option<u16>| match door {
        Door::Loopback(own) => port.unwrap_or(80) == own,
        Door::Socket => true,
    };
    if !NAMES.contains(&request.host.name.as_str()) || !is_port(request.host.port) {
        return refused("the request is for another host");
    }
    if let Some(origin) = request.field("origin")?
        && !is_own(origin, door)
    {
        return refused("the request comes from another page");
    }
    match request.field("sec-fetch-site")? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => refused("the request comes from another page"),
    }
}

fn is_own(origin: &str, door: Door) -> bool {
    let Door::Loopback(port) = door else { return false };
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|name| {
        let plain = format!("http://{name}");
        origin == format!("{plain}:{port}") || port == 80 && origin == plain
    })
}

/// Refuses whoever has not read the token.
pub(super) fn check_token(request: &Request, token: &str) -> Result<(), Answer> {
    let refused = |why: &str| {
        let hint = "send Authorization: Bearer TOKEN; the token is in the file `serve/token` of ringfence's state";
        Answer::problem(401, why, Some(hint)).with("WWW-Authenticate", "Bearer")
    };
    let said = request.field("authorization")?.ok_or_else(|| refused("the token is missing"))?;
    let (scheme, said) = said.split_once(' ').unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") && is_same(said.trim(), token) {
        return Ok(());
    }
    Err(refused("the token is another one"))
}
