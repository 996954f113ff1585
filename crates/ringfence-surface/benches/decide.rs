//! How long a decision takes, with few rules and with many. The bar: under a microsecond with 5,000 rules.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use ringfence_surface::command::{Git, classify};
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, Access, HostFacts, Inputs, Layer, Level, PathFact, Request, Surface, Trust, Via, resolve,
};

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).unwrap()
}

/// A policy with `count` rules of every shape users write, beside the built-in tables.
fn policy(count: usize) -> String {
    let mut text = "version = 1\n[files]\ndeny = [\n".to_owned();
    for n in 0..count {
        let rule = match n % 8 {
            0 => format!("**/secret-{n}"),
            1 => format!("services/s{n}/private"),
            2 => format!("**/*.k{n}"),
            3 => format!("~/data/{n}/x"),
            4 => format!("services/*/conf-{n}*"),
            5 => format!("**/k?y-{n}.pem"),
            6 => format!("**/*token-{n}*"),
            _ => format!("**/gen/{n}/**/out"),
        };
        writeln!(text, "  \"{rule}\",").unwrap();
    }
    text + "]\n"
}

fn surface(count: usize) -> Surface {
    let path = abs("/home/u/proj/ringfence.toml");
    let text = PolicyText::new(path.as_bytes(), policy(count).into_bytes()).unwrap();
    let file = PolicyFile::parse(&text).unwrap();
    let facts = HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths: ["/home", "/home/u", "/home/u/proj"].iter().map(|p| (abs(p), PathFact::Directory)).collect(),
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: String::new(),
        session: None,
    };
    let layer = Layer { level: Level::Project(Trust::Trusted), via: Via::Itself, file, text, path };
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    resolve(&Inputs { layers: vec![layer], request }, &facts, &mut &facts).unwrap().surface
}

const PATHS: &[(&str, &str)] = &[
    ("allowed", "/home/u/proj/services/s7/src/handlers/user.rs"),
    ("denied_by_name", "/home/u/proj/services/s7/src/secret-4992"),
    ("denied_by_ending", "/home/u/proj/a/b/c/d.k4994"),
    ("denied_by_part", "/home/u/proj/a/b/my-token-4990.txt"),
    ("deep", "/home/u/proj/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p.rs"),
    ("outside", "/home/u/elsewhere/notes.txt"),
    ("system", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
    ("secret", "/home/u/.ssh/id_ed25519"),
];

fn decide(c: &mut Criterion) {
    for count in [10, 5000] {
        let surface = surface(count);
        let mut group = c.benchmark_group(format!("decide_{count}"));
        for (name, path) in PATHS {
            let path = abs(path);
            group.bench_function(*name, |b| b.iter(|| surface.decide(black_box(&path), Access::Write).outcome));
        }
    }
}

fn parse_and_resolve(c: &mut Criterion) {
    let mut group = c.benchmark_group("resolve");
    for count in [10, 5000] {
        group.bench_function(count.to_string(), |b| b.iter(|| surface(black_box(count))));
    }
}

/// Lines as agents write them, and a long one.
fn classify_lines(c: &mut Criterion) {
    let mut group = c.benchmark_group("classify");
    let long = format!("cat <<'E'\n{}E\n", "some text of a here-document\n".repeat(1000));
    for (name, line) in [
        ("plain", "ls -la src"),
        (
            "ordinary",
            "cd src && git log --oneline -5 -- main.rs | head -3 2>/dev/null; grep -rn 'fn main' . | sort -u | wc -l",
        ),
        ("loop", "for f in src/*.rs; do if [ -f \"$f\" ]; then sed -n '1,5p' \"$f\" | awk '{print $1}'; fi; done"),
        ("long", long.as_str()),
    ] {
        group.bench_function(name, |b| b.iter(|| classify(black_box(line.as_bytes()), Git::Quiet)));
    }
}

criterion_group!(benches, decide, parse_and_resolve, classify_lines);
criterion_main!(benches);
