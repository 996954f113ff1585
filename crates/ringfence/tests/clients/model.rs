//! A model that says what a script tells it: a server on loopback that speaks what the clients speak to their providers.
//!
//! Which call comes next is read from the conversation that each request carries, so a client may repeat a request, ask for
//! other things in between, or give up a connection, and the script goes on where it was. It answers in `dialect`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::dialect::{self, Dialect};

/// A use of a tool. A tool that takes a text and no object has a JSON string here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) input: Value,
}

impl Call {
    pub(crate) fn new(tool: &str, input: Value) -> Self {
        Self { tool: tool.to_owned(), input }
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) body: Value,
}

/// The last thing that the model says. A client prints it, which shows that it went through the whole script. It is one word,
/// since on a terminal the space between two may be anything.
pub(crate) const LAST_WORDS: &str = "the-script-is-at-its-end";

/// The server. Its threads end with the test.
pub(crate) struct Model {
    pub(crate) port: u16,
    length: usize,
    heard: Arc<Mutex<Vec<Request>>>,
}

impl Model {
    pub(crate) fn with(script: Vec<Call>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<Request>>> = Arc::default();
        let length = script.len();
        let (script, ears) = (Arc::new(script), Arc::clone(&heard));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, ears) = (Arc::clone(&script), Arc::clone(&ears));
                // A client that goes away in the middle of a request is no fault of the model's.
                std::thread::spawn(move || drop(converse(&stream, &script, &ears)));
            }
        });
        Self { port, length, heard }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.heard.lock().unwrap().clone()
    }

    /// What the client reported of each call, as text; nothing where it reported nothing.
    pub(crate) fn results(&self) -> Vec<Option<String>> {
        let mut results = vec![None; self.length];
        for request in self.requests() {
            let Some(dialect) = Dialect::of(&request.line) else { continue };
            for (at, text) in dialect.results(&request.body) {
                if let Some(place) = results.get_mut(at) {
                    *place = Some(text);
                }
            }
        }
        results
    }
}

/// One connection, which may carry several requests.
fn converse(stream: &TcpStream, script: &[Call], heard: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some((line, body)) = request(&mut reader)? {
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let answer = dialect::answer(&line, &body, script);
        if let Ok(mut heard) = heard.lock() {
            heard.push(Request { line, body });
        }
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            answer.status,
            answer.kind,
            answer.body.len()
        );
        let mut stream = stream;
        stream.write_all(&[head.as_bytes(), answer.body.as_bytes()].concat())?;
    }
    Ok(())
}

/// The first line and the body of a request; nothing at the end of the connection.
fn request(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let (mut length, mut in_chunks) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => in_chunks = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let body = if in_chunks { chunks(reader)? } else { exactly(reader, length)? };
    Ok(Some((first.trim_end().to_owned(), body)))
}

fn exactly(reader: &mut BufReader<&TcpStream>, length: usize) -> std::io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        body.extend(exactly(reader, size)?);
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}
