//! `ringfence root`: trees of programs to run commands in.

use std::ffi::OsStr;
use std::process::ExitCode;

use ringfence_session::roots::{Class, Depth, Kind, Root, RootError, Roots, Wanted, Work};
use ringfence_session::text::Bytes;
use ringfence_surface::AbsPath;
use serde::Serialize;

use crate::cli::{ClassArg, RootArgs, RootCommand};
use crate::error::Failure;
use crate::host::{facts, os_path, user};
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

pub(crate) fn run(args: &RootArgs) -> Result<ExitCode, Failure> {
    let roots = here()?;
    match &args.command {
        RootCommand::Create { name, with, owner, workspace, json } => {
            create(&roots, name, with, owner.as_deref(), workspace.as_deref(), *json)
        }
        RootCommand::List { json } => list(&roots, *json),
        RootCommand::Show { name, json } => show(&roots, name, *json),
        RootCommand::Remove { name, force } => {
            let work = if *force { Work::Removed } else { Work::Kept };
            roots.remove(name, work).map_err(failed)?;
            say(&format!("ringfence: root {name} was removed"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The caller's roots.
pub(super) fn here() -> Result<Roots, Failure> {
    let own = facts()?.own_directories();
    let (data, state) = own.data.zip(own.state).ok_or(Failure::NoHome)?;
    Roots::of(&data, &state).map_err(|source| Failure::Write { path: os_path(&data).into(), source })
}

fn failed(source: RootError) -> Failure {
    Failure::Root { source: source.into() }
}

/// A root in JSON.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    with: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<Bytes>,
    tree: Bytes,
    work: Bytes,
    files: usize,
    bytes: u64,
}

impl Row {
    fn of(root: &Root) -> Self {
        let manifest = root.manifest();
        let (files, bytes) = manifest.size();
        Self {
            name: manifest.name.clone(),
            with: manifest.with.clone(),
            owner: manifest.owner,
            workspace: manifest.workspace.clone(),
            tree: Bytes::new(root.tree().as_bytes()),
            work: Bytes::new(root.work().as_bytes()),
            files,
            bytes,
        }
    }
}

fn create(
    roots: &Roots,
    name: &str,
    with: &[ClassArg],
    owner: Option<&str>,
    workspace: Option<&OsStr>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let owner = owner.map(user).transpose()?.or_else(by_default);
    let workspace = workspace.map(directory).transpose()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let with = with.iter().map(|class| class_of(*class)).collect();
    let wanted = Wanted { name, with, owner, workspace: workspace.as_ref(), path: &path, carries: None };
    let root = roots.create(&wanted).map_err(failed)?;
    notes(&root).iter().for_each(|line| say(line));
    if json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "root": Row::of(&root) }))?;
    } else {
        print(&format!("{}\n", root.work()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Who works in a root that root makes and says nothing about: whoever stands behind `sudo`, or nobody.
pub(super) fn by_default() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok().filter(|id| *id != 0);
    let behind = number("SUDO_UID").zip(number("SUDO_GID")).unwrap_or((65_534, 65_534));
    rustix::process::geteuid().is_root().then_some(behind)
}

/// A directory that is there, without links.
fn directory(path: &OsStr) -> Result<AbsPath, Failure> {
    let unread = |source| Failure::Read { path: path.into(), source };
    let real = std::fs::canonicalize(path).map_err(unread)?;
    if !real.is_dir() {
        return Err(unread(std::io::ErrorKind::NotADirectory.into()));
    }
    AbsPath::lexical(real.as_os_str().as_encoded_bytes()).map_err(|source| Failure::Path { source })
}

/// What whoever uses it should know.
fn notes(root: &Root) -> Vec<String> {
    const FEW: usize = 8;
    let manifest = root.manifest();
    let (files, bytes) = manifest.size();
    let mut lines = vec![format!("ringfence: root {}: {files} files, {} MiB", manifest.name, bytes >> 20)];
    let absent: Vec<&str> = manifest.left_out.iter().map(|left| left.what.as_str()).collect();
    if !absent.is_empty() {
        let more = absent.len().saturating_sub(FEW);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let shown: Vec<&str> = absent.into_iter().take(FEW).collect();
        lines.push(format!("ringfence: left out: {}{more} (`ringfence root show` says why)", shown.join(", ")));
    }
    if manifest.substitutes().next().is_some() {
        let why = "no devices can be made here, which takes root or CAP_MKNOD";
        lines.push(format!("ringfence: {why}: /dev/null is an ordinary file, and random bytes come from a pipe"));
    }
    lines
}

fn list(roots: &Roots, json: bool) -> Result<ExitCode, Failure> {
    let names = roots.list().map_err(|source| Failure::Read { path: "roots".into(), source })?;
    let (mut rows, mut unread) = (Vec::new(), Vec::new());
    for name in names {
        match roots.open(&name) {
            Ok(root) => rows.push(Row::of(&root)),
            Err(cause) => unread.push(format!("{name}: {cause}")),
        }
    }
    unread.iter().for_each(|line| say(&format!("ringfence: {line}")));
    if json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "roots": rows }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() && unread.is_empty() {
        say("ringfence: there is no root; `ringfence root create NAME --with git,shell` makes one");
    }
    let mut text = String::new();
    for row in rows {
        let size = format!("{} files, {} MiB", row.files, row.bytes >> 20);
        text.push_str(&format!("{}  {}  {size}  {}\n", row.name, row.with.join(","), row.work.shown()));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn show(roots: &Roots, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let root = roots.open(name).map_err(failed)?;
    let checked = root.check(Depth::Everything);
    let changed = checked.as_ref().err().map(ToString::to_string);
    let code = ExitCode::from(u8::from(changed.is_some()));
    if json {
        let whole = changed.is_none();
        let (row, manifest) = (Row::of(&root), root.manifest());
        let answer = serde_json::json!({
            "schema": SCHEMA, "root": row, "whole": whole, "changed": changed, "places": manifest.places,
            "entries": manifest.entries, "left_out": manifest.left_out,
        });
        print_json(&answer)?;
        return Ok(code);
    }
    let row = Row::of(&root);
    let mut text = format!("root {}, for {}\n", row.name, row.with.join(", "));
    text.push_str(&format!("  tree   {}\n  work   {}\n", row.tree.shown(), row.work.shown()));
    if let Some(workspace) = &row.workspace {
        text.push_str(&format!("  made for {}\n", workspace.shown()));
    }
    text.push_str(&format!("  holds  {} files, {} MiB\n", row.files, row.bytes >> 20));
    let devices = root.manifest().entries.iter().filter(|entry| matches!(entry.kind, Kind::Device { .. })).count();
    text.push_str(&format!(
        "  devices {devices}{}\n",
        if devices == 0 { " (/dev/null is an ordinary file, random bytes come from a pipe)" } else { "" }
    ));
    for left in &root.manifest().left_out {
        text.push_str(&format!("  without {}: {}\n", left.what, left.why));
    }
    text.push_str(&match &changed {
        None => "  every file is as it was made\n".to_owned(),
        Some(changed) => format!("  CHANGED: {changed}\n"),
    });
    print(&text)?;
    Ok(code)
}

fn class_of(class: ClassArg) -> Class {
    match class {
        ClassArg::File => Class::File,
        ClassArg::Git => Class::Git,
        ClassArg::Shell => Class::Shell,
        ClassArg::Python => Class::Python,
        ClassArg::Node => Class::Node,
        ClassArg::Rust => Class::Rust,
        ClassArg::Go => Class::Go,
        ClassArg::C => Class::C,
    }
}
