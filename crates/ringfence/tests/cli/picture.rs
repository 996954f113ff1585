//! The picture in `README.md`: lines of the tour, typed on a real terminal, and what appeared on it.
//!
//! `cargo xtask picture` takes it anew. The test types the same lines and compares, so that the picture shows what happens; only
//! what depends on the host, which claims its kernel lacks, is not compared.

mod svg;
mod terminal;

use std::process::Command;

use crate::screen::Screen;
use crate::tour::hello;
use svg::Row;

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/picture.svg");

/// What is typed.
const TYPED: &[&str] = &[
    "ringfence run -- sh -c 'echo hello > notes.txt; cat notes.txt'",
    "ringfence run -- cat ~/.ssh/id_ed25519",
    "ringfence run -- sh -c 'echo evil > .git/hooks/pre-commit'",
    "ringfence run -- curl -sS https://example.com",
    "ringfence explain --write .git/hooks/pre-commit",
];

/// Types everything, and gives what is on the screen then.
fn taken() -> Vec<Row> {
    let world = hello();
    let root = world.path("");
    let root = root.to_str().expect("a plain path").trim_end_matches('/').to_owned();
    let mut rows: Vec<Row> = Vec::new();
    for typed in TYPED {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ringfence() {{ \"$RINGFENCE_PROGRAM\" \"$@\"; }}; {typed}")]);
        shell.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").envs(world.variables());
        shell.env("RINGFENCE_PROGRAM", world.binary()).env("TERM", "xterm").current_dir(world.path("project"));
        let shown = terminal::lines(&Screen::start(shell).all().1);
        let shown = shown.iter().map(|line| {
            let line = line.replace(&format!("{root}/project"), "/home/you/hello");
            without_grant(&line.replace(&format!("{root}/home"), "/home/you"))
        });
        rows.push(Row::Typed((*typed).to_owned()));
        for line in at_the_end(shown.collect()) {
            // What was shown already is not shown again.
            let is_known = line.starts_with("ringfence: ") && rows.contains(&Row::Shown(line.clone()));
            match (is_known, rows.last()) {
                (true, Some(Row::Shown(last))) if last == "…" => {}
                (true, _) => rows.push(Row::Shown("…".to_owned())),
                (false, _) => rows.push(Row::Shown(line)),
            }
        }
    }
    rows
}

/// Something can be granted to a session that runs, by its name; whether it still runs when the line is told depends on the moment.
fn without_grant(line: &str) -> String {
    let Some((before, rest)) = line.split_once("ringfence grant ") else { return line.to_owned() };
    let after = rest.split_once(", or ").map(|(_, after)| after).unwrap_or_default();
    format!("{before}{after}")
}

/// What is stopped is told once, in the first calm moment: that may be before the command says something or after it, and before the
/// same comes again or after it. In the picture it stands at the end.
fn at_the_end(lines: Vec<String>) -> Vec<String> {
    let (told, others): (Vec<String>, Vec<String>) =
        lines.into_iter().partition(|line| line.starts_with("ringfence: stopped: "));
    let told: Vec<String> = told.iter().map(|line| line.replacen(" (2 times)", "", 1)).collect();
    let what = |line: &String| line.split(": ").nth(2).map(str::to_owned);
    assert!(
        told.iter().enumerate().all(|(at, line)| !told[..at].iter().any(|other| what(other) == what(line))),
        "{told:?}"
    );
    others.into_iter().chain(told).collect()
}

/// What every host shows alike.
fn everywhere(rows: &[Row]) -> Vec<&Row> {
    let is_the_hosts =
        |text: &str| ["ringfence: not held: ", "ringfence: withheld: "].iter().any(|of| text.starts_with(of));
    rows.iter().filter(|row| !matches!(row, Row::Shown(text) if is_the_hosts(text))).collect()
}

/// The picture shows what happens, and nobody has painted on it.
#[test]
fn the_picture_is_true() {
    let rows = taken();
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(PICTURE, svg::draw(&rows)).expect("the picture can be written");
        return;
    }
    let kept = std::fs::read_to_string(PICTURE).expect("there is a picture");
    let shown = svg::read(&kept);
    assert_eq!(everywhere(&shown), everywhere(&rows), "`cargo xtask picture` takes it anew");
    assert_eq!(svg::draw(&shown), kept, "`cargo xtask picture` takes it anew");
}
