//! Which variables a read-only line may set.
//!
//! A variable can change what a program does, what the shell reads, and in zsh even where programs are found (`path`). So only
//! names that are known to mean nothing may be set, and a handful that are known to be harmless may be handed to programs.

use super::arguments::Argument;
use super::fault::{Fault, Span, shown};

/// Names of small letters that mean something to a shell or to many programs.
const MEANINGFUL: &[&str] = &[
    "aliases",
    "all_proxy",
    "argv",
    "auto_resume",
    "builtins",
    "cdpath",
    "chpwd_functions",
    "commands",
    "compstate",
    "dirstack",
    "dis_aliases",
    "dis_builtins",
    "dis_functions",
    "dis_functions_source",
    "dis_galiases",
    "dis_patchars",
    "dis_reswords",
    "dis_saliases",
    "epochtime",
    "errnos",
    "fignore",
    "fpath",
    "ftp_proxy",
    "funcfiletrace",
    "funcsourcetrace",
    "funcstack",
    "functions",
    "functions_source",
    "functrace",
    "galiases",
    "histchars",
    "history",
    "historywords",
    "http_proxy",
    "https_proxy",
    "jobdirs",
    "jobstates",
    "jobtexts",
    "keymaps",
    "langinfo",
    "mailpath",
    "manpath",
    "mapfile",
    "match",
    "mbegin",
    "mend",
    "module_path",
    "modules",
    "nameddirs",
    "no_proxy",
    "options",
    "parameters",
    "patchars",
    "path",
    "periodic_functions",
    "pipestatus",
    "precmd_functions",
    "preexec_functions",
    "prompt",
    "psvar",
    "reply",
    "reswords",
    "saliases",
    "signals",
    "status",
    "sysparams",
    "termcap",
    "terminfo",
    "userdirs",
    "usergroups",
    "watch",
    "widgets",
    "words",
    "zsh_eval_context",
    "zsh_scheduled_events",
    "zshaddhistory_functions",
    "zshexit_functions",
];

/// Names of capital letters that scripts use for their own. No shell sets one of these by itself, as `read` sets `REPLY`.
const SCRATCH: &[&str] = &[
    "BASE", "BRANCH", "COMMIT", "COUNT", "DIR", "DIRS", "END", "EXT", "FILE", "FILES", "HASH", "INPUT", "LINE", "NAME",
    "NAMES", "NEW", "NUM", "OLD", "OUT", "OUTPUT", "PAT", "PATTERN", "REPO", "RESULT", "REV", "ROOT", "SHA", "SRC",
    "START", "TARGET", "TOTAL", "URL", "VALUE", "VERSION",
];

/// Variables that may be handed to programs, with any plain value.
const HARMLESS: &[&str] = &[
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "NO_COLOR",
    "TZ",
];

/// Variables that may be handed to programs with one value.
const ONLY: &[(&str, &[u8])] = &[("GIT_OPTIONAL_LOCKS", b"0"), ("GIT_PAGER", b"cat"), ("PAGER", b"cat")];

/// May a variable of this name be set, for the shell itself?
pub(super) fn check_name(name: &[u8], at: &Span) -> Result<(), Fault> {
    let is_word = !name.first().is_none_or(u8::is_ascii_digit)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let text = std::str::from_utf8(name).unwrap_or_default();
    let is_small = name.iter().any(u8::is_ascii_lowercase) && MEANINGFUL.binary_search(&text).is_err();
    let is_letter = matches!(name, [b'A'..=b'Z']);
    if is_word && (is_small || is_letter || SCRATCH.binary_search(&text).is_ok()) {
        return Ok(());
    }
    let fault = Fault::new(at, format!("setting {} may change what programs do", shown(name)));
    Err(fault.with("use another name, in small letters"))
}

/// May a program be given this variable?
pub(super) fn check_given(name: &[u8], value: &Argument, at: &Span) -> Result<(), Fault> {
    let text = std::str::from_utf8(name).unwrap_or_default();
    let is_plain = |value: &[u8]| {
        value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'@' | b'/' | b'+' | b':' | b','))
    };
    let is_fine = value.known().is_some_and(|value| {
        let is_only = ONLY.iter().any(|(name, only)| *name == text && *only == value);
        // zsh evaluates what is assigned to COLUMNS.
        let is_evaluated = text == "COLUMNS" && !value.iter().all(u8::is_ascii_digit);
        is_only || (HARMLESS.binary_search(&text).is_ok() && is_plain(value) && !is_evaluated)
    });
    if is_fine {
        return Ok(());
    }
    let fault = Fault::new(at, format!("the variable {} may change what the program does", shown(name)));
    Err(fault.with("leave it out"))
}

/// May this stand alone: `name=value`?
pub(super) fn check_alone(name: &[u8], value: Option<&Argument>, at: &Span) -> Result<(), Fault> {
    match value {
        Some(value) if check_given(name, value, at).is_ok() => Ok(()),
        _ => check_name(name, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(MEANINGFUL.is_sorted() && SCRATCH.is_sorted() && HARMLESS.is_sorted() && ONLY.is_sorted());
    }
}
