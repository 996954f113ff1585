//! A package registry on loopback, for the user outside: what it serves ends up in the user's own caches.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Files by path. The thread ends with the test.
pub(crate) struct Served {
    pub(crate) port: u16,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Served {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let known = Arc::clone(&files);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream, &known))));
        Self { port, files }
    }

    pub(crate) fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), content.into());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn answer(stream: TcpStream, files: &Mutex<HashMap<String, Vec<u8>>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let found = files.lock().ok().and_then(|files| files.get(path).cloned());
    let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
    let body = found.unwrap_or_default();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    (&stream).write_all(&[head.as_bytes(), &body].concat())
}
