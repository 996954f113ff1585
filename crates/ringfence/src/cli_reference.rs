//! `docs/cli.md` is made from the command line's own description, and this test keeps it so.

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

const HEAD: &str = "\
# The command line

Made from `ringfence --help` and the help of each command; `RINGFENCE_BLESS=1 cargo test -p ringfence cli_reference` writes it
anew. Commands that only ringfence itself calls are not listed.
";

fn reference() -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut text = HEAD.to_owned();
    section(&mut text, &command);
    text
}

/// A command, and then those below it.
fn section(text: &mut String, command: &Command) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    // Programs call `jail-exec`; what else is hidden only ringfence calls.
    let is_listed = |inner: &&Command| {
        let name = inner.get_name();
        name == "jail-exec" || !inner.is_hide_set() && name != "help"
    };
    command.get_subcommands().filter(is_listed).for_each(|inner| section(text, inner));
}

#[test]
fn the_reference_is_up_to_date() {
    let expected = reference();
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    let changes = crate::diff::changes(&found, &expected);
    assert!(changes.is_empty(), "docs/cli.md is out of date; RINGFENCE_BLESS=1 writes it\n{}", changes.join("\n"));
}
