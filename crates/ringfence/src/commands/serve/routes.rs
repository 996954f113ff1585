//! What can be asked for, as one table. The OpenAPI document says the same, and a test holds the two together.

use std::path::Path;

use ringfence_session::desk::Verb;
use sha2::{Digest as _, Sha256};

use super::answer::Answer;
use super::events::Events;
use super::line::Line;
use super::request::Request;
use super::sessions;

/// What is answered.
pub(super) enum Reply {
    /// All of it at once.
    Whole(Answer),
    /// Events, as they happen.
    Stream(Box<Events>),
}

/// The document that describes all this.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");
const PAGE: &str = include_str!("page.html");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Document,
    Events,
    Sessions,
    Session,
    SessionEvents,
    Grants,
    Grant,
    Revoke,
    Stop,
    Pause,
    Resume,
    Approvals,
    Answer,
    Mode,
}

/// Method, path, and what it is. A part in braces stands for any one part.
const ROUTES: &[(&str, &str, Route)] = &[
    ("GET", "/api/openapi.json", Route::Document),
    ("GET", "/api/events", Route::Events),
    ("GET", "/api/sessions", Route::Sessions),
    ("GET", "/api/sessions/{id}", Route::Session),
    ("GET", "/api/sessions/{id}/events", Route::SessionEvents),
    ("GET", "/api/sessions/{id}/grants", Route::Grants),
    ("POST", "/api/sessions/{id}/grants", Route::Grant),
    ("DELETE", "/api/sessions/{id}/grants/{n}", Route::Revoke),
    ("POST", "/api/sessions/{id}/stop", Route::Stop),
    ("POST", "/api/sessions/{id}/pause", Route::Pause),
    ("POST", "/api/sessions/{id}/resume", Route::Resume),
    ("POST", "/api/sessions/{id}/mode", Route::Mode),
    ("GET", "/api/sessions/{id}/approvals", Route::Approvals),
    ("POST", "/api/sessions/{id}/approvals", Route::Answer),
];

/// The parts that stand for something, where a path is of this form.
fn parts<'p>(form: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let (mut form, mut path) = (form.split('/'), path.split('/'));
    let mut found = Vec::new();
    loop {
        match (form.next(), path.next()) {
            (None, None) => return Some(found),
            (Some(part), Some(said)) if part.starts_with('{') && !said.is_empty() => found.push(said),
            (Some(part), Some(said)) if part == said => {}
            _ => return None,
        }
    }
}

/// Answers whoever has shown the token.
pub(super) fn answer(request: &mut Request, line: &Line, managed: &Path) -> Result<Reply, Answer> {
    let path = request.path.clone();
    let here: Vec<_> =
        ROUTES.iter().filter_map(|(method, form, route)| Some((method, parts(form, &path)?, route))).collect();
    let Some((_, said, route)) = here.iter().find(|(method, ..)| **method == request.method) else {
        let allowed = here.iter().map(|(method, ..)| **method).collect::<Vec<_>>().join(", ");
        return Err(if here.is_empty() {
            Answer::problem(404, "there is nothing under this path", Some("/api/openapi.json says what there is"))
        } else {
            Answer::problem(405, "this cannot be done with that path", None).with("Allow", &allowed)
        });
    };
    let known: &[&str] = if **route == Route::Sessions { &["all"] } else { &[] };
    request.parameters(known)?;
    let id = said.first().copied().unwrap_or_default();
    if matches!(route, Route::Grant | Route::Mode | Route::Answer) {
        return match route {
            Route::Grant => sessions::grant(id, request.json(line)?, managed),
            Route::Answer => sessions::answer(id, request.json(line)?),
            _ => sessions::mode(id, request.json(line)?),
        }
        .map(Reply::Whole);
    }
    request.no_body(line)?;
    Ok(Reply::Whole(match route {
        Route::Events => return Events::all(request).map(|events| Reply::Stream(Box::new(events))),
        Route::SessionEvents => return Events::of(id, request).map(|events| Reply::Stream(Box::new(events))),
        Route::Document => Answer::raw_json(DOCUMENT),
        Route::Sessions => sessions::list(request)?,
        Route::Session => sessions::one(id)?,
        Route::Grants => sessions::grants(id)?,
        Route::Revoke => sessions::revoke(id, said.get(1).copied().unwrap_or_default())?,
        Route::Stop => sessions::tell(id, Verb::Stop {})?,
        Route::Pause => sessions::tell(id, Verb::Pause {})?,
        Route::Resume => sessions::tell(id, Verb::Resume {})?,
        Route::Approvals => sessions::approvals(id)?,
        Route::Grant | Route::Mode | Route::Answer => {
            return Err(Answer::problem(404, "there is nothing under this path", None));
        }
    }))
}

/// The page. It has no secret: the token comes to it behind the `#` of the address, which no browser sends anywhere.
pub(super) fn page(request: &Request) -> Result<Answer, Answer> {
    if request.method != "GET" {
        return Err(Answer::problem(405, "the page can only be read", None).with("Allow", "GET"));
    }
    request.parameters(&[])?;
    let (style, script) = (hash_of("style"), hash_of("script"));
    let policy = format!(
        "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    Ok(Answer::page(PAGE, &policy))
}

/// What stands in an element of the page, as a content security policy names it.
fn hash_of(element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let rest = PAGE.split_once(&open).map_or("", |(_, rest)| rest);
    let content = rest.split_once(&close).map_or("", |(content, _)| content);
    format!("sha256-{}", base64(&Sha256::digest(content)))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            three.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = char::from(LETTERS[number >> (18 - 6 * place) & 63]);
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// A16: nothing that others wrote gets onto the page but through the function that escapes it.
    #[test]
    fn a16_the_page_escapes_every_text() {
        for line in PAGE.lines().filter(|line| line.contains("textContent =") || line.contains(".append(")) {
            let is_row = line.trim() == "row.append(cell);";
            assert!(is_row || line.contains("shown("), "{line}");
        }
        assert!(!PAGE.contains("innerHTML") && !PAGE.contains("innerText"));
    }

    /// A10: the document has every route, and no other.
    #[test]
    fn a10_the_document_and_the_routes_are_the_same() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let mut said = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                said.insert((method.to_uppercase(), path.clone()));
            }
        }
        let routes = ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()));
        let routes: BTreeSet<_> = routes.chain([("GET".to_owned(), "/".to_owned())]).collect();
        assert_eq!(said, routes);
    }

    #[test]
    fn paths() {
        let check =
            |form, path, expected: Option<&[&str]>| assert_eq!(parts(form, path).as_deref(), expected, "{path}");
        check("/a/{id}", "/a/b", Some(&["b"]));
        check("/a/{id}", "/a/", None);
        check("/a/{id}", "/a", None);
        check("/a/{id}", "/a/b/", None);
        check("/a/{id}", "//a/b", None);
        check("/a/{id}/c/{n}", "/a/b/c/1", Some(&["b", "1"]));
    }

    #[test]
    fn base64_of() {
        for (bytes, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
    }

    /// Nothing is loaded from anywhere, and nothing in the page runs but what its policy names.
    #[test]
    fn the_page_stands_alone() {
        assert_ne!(hash_of("script"), hash_of("nothing"));
        assert_ne!(hash_of("style"), hash_of("nothing"));
        for word in
            ["http://", "https://", "src=", "href=", "innerHTML", "style=", "onclick", "eval(", "@import", "url("]
        {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert_eq!((PAGE.matches("<script").count(), PAGE.matches("<style").count()), (1, 1));
    }
}
