//! Malformed requests, made from the OpenAPI document: nothing that is sent makes the server fail, hang, or answer anything but what
//! the document says.

use std::process::Command;
use std::time::{Duration, Instant};

use ringfence_testkit::report_skip;
use serde_json::{Value, json};

use super::api::Server;
use super::live::Shell;
use super::{Fence, Who, text};

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap_or(0) % sides
    }

    fn of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.roll(values.len())]
    }
}

/// A session that has ended or is held answers everything else alike, and a stream does not end.
const NOT_TRIED: &[&str] = &["/events", "/pause", "/stop"];

const ODD: &[&str] = &[
    "",
    "a",
    "aaaaaaaa",
    "..",
    "%2e%2e",
    "%00",
    "-1",
    "0",
    "1",
    "18446744073709551616",
    "é",
    "\u{202e}",
    "*",
    "a/b",
    "{id}",
    "' OR 1=1",
    "<script>",
    "../../etc/passwd",
    "nan",
    "true",
    "null",
    "~",
    "\u{7f}",
    ";",
    "?",
    "&&",
    "=",
    "%",
    "%zz",
    "+",
];

const METHODS: &[&str] = &[
    "GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X", "", "GET\0", "PROPFIND",
];

const FIELDS: &[&str] = &[
    "Content-Length: 0",
    "Content-Length: 1",
    "Content-Length: -1",
    "Content-Length: 5, 5",
    "Content-Length: 0x5",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "Upgrade: websocket",
    "Connection: keep-alive",
    "Content-Type: text/plain",
    "Content-Type: ",
    "Content-Encoding: gzip",
    "Host: 127.0.0.1",
    "Host: a b",
    "Origin: null",
    "Last-Event-ID: x",
    "Last-Event-ID: 1-2-3",
    "Last-Event-ID: 99999999999999999999",
    "X: \u{e9}",
    " folded: x",
    "no colon",
    ": empty",
    "Range: bytes=0-1",
    "TE: trailers",
    "If-None-Match: *",
    "X-HTTP-Method-Override: DELETE",
    "X-Forwarded-Host: evil",
];

fn odd_value(dice: &mut Dice, depth: usize) -> Value {
    match dice.roll(if depth > 2 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(dice.roll(2) == 0),
        2 => json!(*dice.of(&[0_i64, 1, -1, i64::MIN, i64::MAX])),
        3 => json!(1e308),
        4 => json!(*dice.of(ODD)),
        5 => json!(format!("/{}", dice.of(ODD).repeat(dice.roll(200)))),
        6 => json!([odd_value(dice, depth + 1)]),
        7 => json!({ *dice.of(&["hex", "read", "mode", "for_ms", ""]): odd_value(dice, depth + 1) }),
        _ => json!({ "hex": *dice.of(&["", "2f", "zz", "2f00", "ffff", "2"]) }),
    }
}

/// A body that is nearly what the document describes.
fn odd_body(dice: &mut Dice) -> Vec<u8> {
    let mut value = json!({});
    for name in ["read", "for_ms", "mode", "more", "read"] {
        if dice.roll(2) == 0 {
            value[name] = odd_value(dice, 0);
        }
    }
    let mut bytes = value.to_string().into_bytes();
    match dice.roll(6) {
        0 => bytes.truncate(dice.roll(bytes.len())),
        1 => {
            let at = dice.roll(bytes.len());
            bytes[at] = u8::try_from(dice.roll(256)).unwrap_or(0);
        }
        2 => bytes = vec![b'['; dice.roll(20_000)],
        3 => bytes.extend(b"{}"),
        _ => {}
    }
    bytes
}

/// One request, as the document has it in this place, with something wrong in one or several ways.
fn odd_request(dice: &mut Dice, server: &Server<'_>, id: &str, (method, path): &(String, String)) -> Vec<u8> {
    let wrong = |dice: &mut Dice| dice.roll(3) == 0;
    let id = if wrong(dice) { *dice.of(ODD) } else { id };
    let number = if wrong(dice) { *dice.of(ODD) } else { "1" };
    let mut path = path.replace("{id}", id).replace("{n}", number);
    if wrong(dice) {
        path =
            format!("{path}{}{}", dice.of(&["?", "/", "?all=", "?x=", "#", "//", ";", "?all=true&all="]), dice.of(ODD));
    }
    let method = if wrong(dice) { *dice.of(METHODS) } else { method };
    let version = if dice.roll(12) == 0 { *dice.of(&["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""]) } else { "HTTP/1.1" };
    let mut bytes = format!("{method} {path} {version}\r\n").into_bytes();
    if dice.roll(20) != 0 {
        bytes.extend(format!("Host: 127.0.0.1:{}\r\n", server.port).bytes());
    }
    if dice.roll(20) != 0 {
        bytes.extend(format!("Authorization: Bearer {}\r\n", server.token).bytes());
    }
    let body = match dice.roll(4) {
        0 => Vec::new(),
        1 => dice.of(&["{\"read\":\"/etc/none\"}", "{\"mode\":\"auto\"}", "{}"]).as_bytes().to_vec(),
        _ => odd_body(dice),
    };
    if dice.roll(8) != 0 {
        bytes.extend(b"Content-Type: application/json\r\n");
    }
    if !body.is_empty() && dice.roll(8) != 0 {
        bytes.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    for _ in 0..dice.roll(3) {
        bytes.extend(dice.of(FIELDS).bytes().chain(*b"\r\n"));
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    if dice.roll(10) == 0 {
        let at = dice.roll(bytes.len());
        bytes[at] = u8::try_from(dice.roll(256)).unwrap_or(0);
    }
    if dice.roll(15) == 0 {
        bytes.truncate(dice.roll(bytes.len()));
    }
    bytes
}

/// Every method of every path, with the statuses that it may answer with.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| (method, path)));
    let methods = methods.filter(|(method, _)| *method != "parameters");
    methods.map(|(method, path)| (method.to_uppercase(), path.clone())).collect()
}

/// A10: thousands of malformed requests; none makes it fail or hang, and each that is answered is answered in JSON.
#[test]
fn a10_malformed_requests_are_answered_with_a_problem() {
    let fence = Fence::new(Who::Caller);
    let server = Server::start(&fence);
    let mut shell = Shell::start(&fence, &[]);
    let document = server.ask("GET", "/api/openapi.json", None, 200);
    let is_tried = |(_, path): &(String, String)| !NOT_TRIED.iter().any(|end| path.ends_with(end));
    let operations: Vec<(String, String)> = operations(&document).into_iter().filter(is_tried).collect();
    let mut dice = Dice(0x5EED);
    let mut answered = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..3_000 {
        let operation = dice.of(&operations).clone();
        let request = odd_request(&mut dice, &server, &shell.id, &operation);
        let start = Instant::now();
        let said = server.send(&request);
        let shown = || format!("{round}: {}\n--\n{said}", text(&request));
        assert!(start.elapsed() < Duration::from_secs(20), "{}", shown());
        // Half a head is not answered.
        if said.is_empty() {
            assert!(!request.windows(4).any(|end| end == b"\r\n\r\n"), "{}", shown());
            continue;
        }
        let status = said.get(9..12).unwrap_or_default().to_owned();
        assert!(!status.starts_with('5'), "{}", shown());
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        if !status.starts_with('2') {
            assert!(head.contains("application/problem+json"), "{}", shown());
            let problem: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{}", shown()));
            assert_eq!(problem["status"].to_string(), status, "{}", shown());
        }
        *answered.entry(status).or_default() += 1;
    }
    // It was tried in more ways than one.
    for status in ["200", "400", "401", "403", "404", "405", "409", "415"] {
        assert!(answered.contains_key(status), "{answered:?}");
    }
    assert_eq!(shell.does("echo well"), "well");
    server.ask("GET", "/api/sessions", None, 200);
    server.ends();
    shell.ends();
}

/// A10: every route answers as the document says: with one of its statuses, in one of its types.
#[test]
fn a10_every_route_answers_as_the_document_says() {
    let fence = Fence::new(Who::Caller);
    let server = Server::start(&fence);
    let shell = Shell::start(&fence, &[]);
    let document = server.ask("GET", "/api/openapi.json", None, 200);
    let mut operations = operations(&document);
    // The last one, since it ends the session; after the one that lets it go on.
    operations.sort_by_key(|(_, path)| (path.ends_with("/stop"), path.ends_with("/resume")));
    for (method, path) in operations {
        let operation = &document["paths"][&path][method.to_lowercase()];
        if path.ends_with("/events") {
            continue;
        }
        for (id, body) in [
            ("aaaaaaaa", "{}"),
            (shell.id.as_str(), "{}"),
            (shell.id.as_str(), "{\"mode\":\"auto\"}"),
            (shell.id.as_str(), ""),
        ] {
            let target = path.replace("{id}", id).replace("{n}", "1");
            let said = server.send(
                format!(
                    "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    server.port,
                    server.token,
                    body.len()
                )
                .as_bytes(),
            );
            let status = said.get(9..12).unwrap_or_default();
            let answer = &operation["responses"][status];
            assert!(answer.is_object(), "{method} {target}: {said}");
            let answer = match answer["$ref"].as_str() {
                Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
                None => answer,
            };
            let kind = said.lines().find_map(|line| line.strip_prefix("Content-Type: ")).unwrap();
            assert!(answer["content"][kind].is_object(), "{method} {target}: {kind}: {said}");
        }
    }
    server.ends();
}

/// A10: schemathesis, which reads the document and thinks of what nobody here has thought of. `cargo xtask test` installs it.
#[test]
fn a10_schemathesis_finds_no_fault() {
    let target = std::path::Path::new(env!("CARGO_BIN_EXE_ringfence")).parent().unwrap().parent().unwrap();
    let program = target.join("schemathesis/bin/st");
    if !program.is_file() {
        let why = "schemathesis is not installed: `cargo xtask test` does it";
        assert_ne!(std::env::var_os("CI"), Some("true".into()), "{why}");
        return report_skip(why);
    }
    let fence = Fence::new(Who::Caller);
    let server = Server::start(&fence);
    let shell = Shell::start(&fence, &[]);
    let document = server.ask("GET", "/api/openapi.json", None, 200);
    let mut changed = document.clone();
    // A name that exists, so that more than 404 is tried.
    let paths = changed["paths"].as_object_mut().unwrap();
    paths.retain(|path, _| !NOT_TRIED.iter().any(|end| path.ends_with(end)));
    for item in paths.values_mut() {
        let parameters = item.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten().filter(|one| one["name"] == "id") {
            parameter["schema"] = json!({ "type": "string", "enum": [shell.id, "aaaaaaaa"] });
        }
    }
    fence.write(&[("project/openapi.json", &changed.to_string())]);
    // Without a proxy of the caller's, which would be asked instead.
    let mut command = fence.by(Command::new(program));
    command.args(["run", "openapi.json", "--url", &format!("http://127.0.0.1:{}", server.port), "--no-color"]);
    command.args(["--header", &format!("Authorization: Bearer {}", server.token), "--max-examples", "25"]);
    // A name that is well formed may still be nobody's, and a policy may refuse what is well formed.
    command.args(["--exclude-checks", "positive_data_acceptance", "--suppress-health-check", "all", "--seed", "1"]);
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    assert!(said.contains("No issues found") || said.contains("passed"), "{said}");
    server.ask("GET", "/api/sessions", None, 200);
    shell.ends();
    server.ends();
}
