//! Real first messages, and a short run of the fuzz target in every build: real and made messages, mutated by a fixed seed.

mod wire;

use std::path::Path;

use ringfence_egress::dns::{self, Kind};
use ringfence_egress::hello::{Hello, client_hello};

/// How many inputs the target gets.
const INPUTS: usize = 20_000;

/// Longer inputs only repeat what shorter ones show.
const LONGEST: usize = 1024;

/// What stands in messages and in attacks on their readers.
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"@",
    b"\xc0\x0c",
    b"\xff",
    b"\x16\x03\x01",
    b"\0\x01",
    b"\x05\x01\0\x03",
    b"HTTP/1.1",
    b"Host: a.example\r\n",
    b"Host:",
    b"Content-Length: 4\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Upgrade: h2c\r\n",
    b"http://",
    b"0x7f.1",
    b"nameserver 1.1.1.1\n",
    b"options timeout:",
];

/// First messages as clients sent them: curl and OpenSSL, git and GnuTLS, Go, Java, Node.
const HELLOS: &[&str] = &["curl", "gnutls", "go", "java", "node"];

fn hello(client: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hellos/{client}.bin"));
    std::fs::read(path).expect("the message is in the tree")
}

#[test]
fn the_names_of_real_clients_are_read() {
    for client in HELLOS {
        let bytes = hello(client);
        assert_eq!(client_hello(&bytes), Hello::Name(format!("{client}.example.com")));
        for length in 0..bytes.len() {
            assert_eq!(client_hello(&bytes[..length]), Hello::NeedMore, "{length} bytes of {client}");
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = HELLOS.iter().map(|client| hello(client)).collect();
    let question = dns::query(7, "www.example", Kind::A).expect("a good name");
    let asked = dns::parse_query(&question).expect("a good question");
    let alias =
        b"\xc0\x0c\0\x05\0\x01\0\0\0\x09\0\x04\x01a\xc0\x10\xc0\x29\0\x01\0\x01\0\0\0\x09\0\x04\x01\x02\x03\x04";
    let mut aliased = asked.truncated();
    aliased[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 2]);
    aliased.extend(alias);
    seeds.extend([
        asked.answer(&["1.2.3.4".parse().expect("an address")], 60),
        asked.no_such_name(),
        question,
        aliased,
    ]);
    let texts: &[&[u8]] = &[
        b"",
        b"GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nbody",
        b"POST / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n\x16\x03\x01",
        b"4\r\nbody\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x05\x01\0\x03\x0agithub.com\x01\xbb",
        b"\x04\x01\x01\xbb\0\0\0\x01\0github.com\0",
        b"nameserver fe80::1%eth0\noptions timeout:2 attempts:3\n192.0.2.7 git.example localhost # mine\n",
    ];
    seeds.extend(texts.iter().map(|text| text.to_vec()));
    seeds
}

/// A generator of one's own: the inputs must be the same on every machine and in every year.
struct Random(u64);

impl Random {
    /// A number below `end`; 0 when there is none.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % end.max(1)
    }
}

/// One to four changes to one of the seeds.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(6) {
            0 | 1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 => input.truncate(at),
            3 => {
                let to = at + random.below((input.len() - at).min(16) + 1);
                input.drain(at..to);
            }
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                input.splice(at..at, other[from..].iter().copied());
            }
            _ => {
                let token = TOKENS[random.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

#[test]
fn no_message_makes_a_reader_panic() {
    let seeds = seeds();
    for seed in &seeds {
        wire::any(seed);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..INPUTS {
        // What broke it is shown, so that it can become a row of a table.
        let input = Shown(mutated(&seeds, &mut random));
        wire::any(&input.0);
    }
}

/// Shows the input when a test panics over it.
struct Shown(Vec<u8>);

impl Drop for Shown {
    #[expect(clippy::print_stderr, reason = "a failing input must be seen to be kept")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", self.0.escape_ascii());
        }
    }
}
