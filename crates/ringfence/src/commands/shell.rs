//! `ringfence shell-install` and `shell-uninstall`: in the user's shell the name of an agent starts it fenced.

mod block;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_surface::Shown;

use crate::cli::{Shell, ShellInstallArgs, ShellUninstallArgs};
use crate::error::{Failure, ShellFailure};
use crate::out::{self, say};
use crate::write;

use block::{Before, Found};

/// The agents that ringfence has settings for.
const AGENTS: [&str; 3] = ["claude", "codex", "gemini"];

pub(crate) fn install(args: &ShellInstallArgs) -> Result<ExitCode, Failure> {
    let named: Vec<String> =
        if args.names.is_empty() { AGENTS.map(str::to_owned).to_vec() } else { args.names.clone() };
    if let Some(name) = named.iter().find(|name| !block::is_usable(name)) {
        return Err(ShellFailure::Name { name: name.clone() }.into());
    }
    let shell = shell(args.shell)?;
    let file = StartFile::of(shell)?;
    // Programs of an earlier call stay fenced.
    let mut names = file.names();
    names.extend(named.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    let before = file.found.map_or(file.now, |found| found.before);
    let block = block::block(shell, &program(shell)?, &names, before);
    let text = block::install(&file.text, file.found, before, &block);
    if text == file.text {
        say(&format!("{} has these lines already", file.shown()));
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if file.found.is_some() { "the lines of ringfence become" } else { "these lines are added" };
    say(&format!("{}: {verb}", file.shown()));
    block.lines().for_each(|line| say(&format!("  + {line}")));
    if !agreed(args.yes)? {
        say("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    if before == Before::NoDirectory {
        let dir = file.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(dir).map_err(|source| Failure::Write { path: dir.to_owned(), source })?;
    }
    file.write(&text)?;
    let missing = names.iter().filter(|name| on_path(name).is_none());
    missing.for_each(|name| say(&format!("note: `{name}` is not on PATH now; it is fenced once it is")));
    say(&format!("new shells start {} fenced; `command {}` starts it without ringfence", names.join(", "), names[0]));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn uninstall(args: &ShellUninstallArgs) -> Result<ExitCode, Failure> {
    let shell = shell(args.shell)?;
    let file = StartFile::of(shell)?;
    let Some(found) = file.found else {
        say(&format!("{} has no lines of ringfence", file.shown()));
        return Ok(ExitCode::SUCCESS);
    };
    if !args.names.is_empty() {
        return remove_names(shell, &file, found, &args.names);
    }
    let text = block::uninstall(&file.text, found);
    let failed = |source| Failure::Write { path: file.path.clone(), source };
    match found.before {
        Before::NoFile | Before::NoDirectory if text.is_empty() => {
            std::fs::remove_file(&file.path).map_err(failed)?;
            if found.before == Before::NoDirectory {
                // Something else may be in it by now: then it stays.
                let _ = file.path.parent().map(std::fs::remove_dir);
            }
        }
        _ => file.write(&text)?,
    }
    say(&format!("the lines of ringfence are gone from {}", file.shown()));
    Ok(ExitCode::SUCCESS)
}

/// Takes single programs out of the block. Nothing is written if one of them is not in it.
fn remove_names(shell: Shell, file: &StartFile, found: Found, out: &[String]) -> Result<ExitCode, Failure> {
    let names = file.names();
    if let Some(name) = out.iter().find(|name| !names.contains(name)) {
        return Err(ShellFailure::NotInstalled { name: name.clone(), names }.into());
    }
    let rest: Vec<String> = names.into_iter().filter(|name| !out.contains(name)).collect();
    if rest.is_empty() {
        return uninstall(&ShellUninstallArgs { shell: Some(shell), names: Vec::new() });
    }
    let block = block::block(shell, &program(shell)?, &rest, found.before);
    file.write(&block::install(&file.text, Some(found), found.before, &block))?;
    say(&format!("{}: {} no longer fenced; still fenced: {}", file.shown(), are(out), rest.join(", ")));
    Ok(ExitCode::SUCCESS)
}

fn are(names: &[String]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

/// A yes, by the option or on a terminal.
fn agreed(yes: bool) -> Result<bool, Failure> {
    if !yes && !io::stdin().is_terminal() {
        return Err(ShellFailure::NobodyToAsk.into());
    }
    Ok(yes || out::ask("write them?"))
}

/// The shell that was named, otherwise the user's own.
fn shell(named: Option<Shell>) -> Result<Shell, Failure> {
    let own = || {
        let path = PathBuf::from(std::env::var_os("SHELL")?);
        match path.file_name()?.to_str()? {
            "bash" => Some(Shell::Bash),
            "zsh" => Some(Shell::Zsh),
            "fish" => Some(Shell::Fish),
            _ => None,
        }
    };
    named.or_else(own).ok_or_else(|| ShellFailure::Unknown.into())
}

/// The file that a shell reads at its start.
struct StartFile {
    /// Without symbolic links: those of dotfile managers stay, and what they lead to is written.
    path: PathBuf,
    text: Vec<u8>,
    /// What a block written now records.
    now: Before,
    found: Option<Found>,
}

impl StartFile {
    fn of(shell: Shell) -> Result<Self, Failure> {
        let name = match shell {
            Shell::Bash => directory("HOME")?.map(|home| home.join(".bashrc")),
            Shell::Zsh => either("ZDOTDIR", "")?.map(|dir| dir.join(".zshrc")),
            Shell::Fish => either("XDG_CONFIG_HOME", ".config")?.map(|dir| dir.join("fish/config.fish")),
        };
        let name = name.ok_or(ShellFailure::NoHome)?;
        let failed = |source| Failure::Read { path: name.clone(), source };
        // A link that leads nowhere is an error here, not a missing file.
        if std::fs::symlink_metadata(&name).is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound) {
            let has_directory = name.parent().is_some_and(Path::is_dir);
            let now = if has_directory { Before::NoFile } else { Before::NoDirectory };
            return Ok(Self { path: name, text: Vec::new(), now, found: None });
        }
        let path = std::fs::canonicalize(&name).map_err(failed)?;
        if !std::fs::metadata(&path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        let text = std::fs::read(&path).map_err(failed)?;
        let now = match text.last() {
            Some(b'\n') | None => Before::Complete,
            Some(_) => Before::NoNewline,
        };
        let found = block::find(&text).map_err(|_| ShellFailure::Block { path: path.clone() })?;
        Ok(Self { path, text, now, found })
    }

    /// The programs that the block starts fenced.
    fn names(&self) -> Vec<String> {
        self.found.map(|found| block::names(&self.text, found)).unwrap_or_default()
    }

    fn shown(&self) -> String {
        Shown(self.path.as_os_str().as_encoded_bytes()).to_string()
    }

    fn write(&self, text: &[u8]) -> Result<(), Failure> {
        write::replace(&self.path, text).map_err(|source| Failure::Write { path: self.path.clone(), source })
    }
}

/// A directory that a variable names; a relative one is no directory of the user's.
fn directory(name: &str) -> Result<Option<PathBuf>, Failure> {
    match std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if !path.is_absolute() => Err(ShellFailure::NoHome.into()),
        path => Ok(path),
    }
}

/// The same, or where it is below the home directory.
fn either(name: &str, below: &str) -> Result<Option<PathBuf>, Failure> {
    match directory(name)? {
        Some(path) => Ok(Some(path)),
        None => Ok(directory("HOME")?.map(|home| home.join(below))),
    }
}

/// How the shell starts this program: by its name where PATH leads here, so that an update in another place is found too, otherwise
/// by its path.
fn program(shell: Shell) -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|source| ShellFailure::OwnPath { source })?;
    if on_path("ringfence").and_then(|found| found.canonicalize().ok()) == own.canonicalize().ok() {
        return Ok("ringfence".to_owned());
    }
    let text = own.to_str().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| ShellFailure::PathAsText { path: own.clone() })?;
    Ok(block::quoted(shell, text))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let absolute = |dir: &PathBuf| dir.is_absolute();
    std::env::split_paths(&path).filter(absolute).map(|dir| dir.join(name)).find(|file| file.is_file())
}
