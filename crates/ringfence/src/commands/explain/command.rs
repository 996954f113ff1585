//! Is a line of shell read-only, and if not, why and where.

use std::process::ExitCode;

use ringfence_surface::Shown;
use ringfence_surface::command::{Class, Git, Mutation, classify};
use ringfence_surface::policy::Mode;

use crate::error::Failure;
use crate::out;
use crate::wire::command::WireClass;

/// Answers as for a command inside `ringfence run`, whose environment keeps git quiet. In a session its mode decides: `held` is that
/// mode, or nothing where no tool call is held back.
pub(super) fn explain(line: &[u8], held: Option<Option<Mode>>, json: bool) -> Result<ExitCode, Failure> {
    let class = classify(line, Git::Quiet);
    let mode = held.map(in_mode);
    if json {
        out::print_json(&WireClass::new(line, &class, mode.map(|(word, _)| word)))?;
    } else {
        let mode = mode.map(|(word, why)| format!("  mode:   {word}: {why}\n")).unwrap_or_default();
        out::print(&(in_words(line, &class) + &mode))?;
    }
    Ok(match (class, held) {
        (Class::ReadOnly, _) | (_, Some(None | Some(Mode::Auto))) => ExitCode::SUCCESS,
        (Class::Mutating(_), None | Some(Some(Mode::AcceptEdits))) => ExitCode::from(1),
    })
}

/// The word for how much the tool calls of a session are held back, and what that means for a line.
fn in_mode(mode: Option<Mode>) -> (&'static str, &'static str) {
    match mode {
        None => ("none", "no agent's client was started there, and every command passes to the fence"),
        Some(Mode::Auto) => ("auto", "every command passes to the fence"),
        Some(Mode::AcceptEdits) => ("accept-edits", "only what is proved read-only passes without a question"),
    }
}

fn in_words(line: &[u8], class: &Class) -> String {
    let Class::Mutating(mutation) = class else { return format!("read-only: {}\n", Shown(line)) };
    let (shown, carets) = underlined(line, mutation);
    let mut words = format!("mutating: {shown}\n          {carets}\n  reason: {}\n", mutation.reason);
    if let Some(remedy) = &mutation.remedy {
        words.push_str(&format!("  remedy: {remedy}\n"));
    }
    words
}

/// The line of the text in which the fault begins, and carets below its word.
fn underlined(text: &[u8], mutation: &Mutation) -> (String, String) {
    let before = text.get(..mutation.at.start).unwrap_or_default();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let width = |bytes: &[u8]| Shown(bytes).to_string().chars().count();
    let end = mutation.at.end.saturating_sub(start).min(line.len());
    let word = line.get(mutation.at.start - start..end).unwrap_or_default();
    let indent = " ".repeat(width(before.get(start..).unwrap_or_default()));
    (Shown(line).to_string(), format!("{indent}{}", "^".repeat(width(word).max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(in_words(line.as_bytes(), &classify(line.as_bytes(), Git::Quiet)), expected);
    }

    #[test]
    fn the_word_at_fault_is_underlined() {
        check("ls | wc -l", "read-only: ls | wc -l\n");
        check(
            "ls > x",
            "mutating: ls > x\n             ^^^\n  reason: the redirect writes `x`\n  remedy: only `/dev/null` may be written\n",
        );
        check("ls\n rm é x\nls", "mutating:  rm é x\n           ^^\n  reason: `rm` changes files\n");
        check("ls &&", "mutating: ls &&\n               ^\n  reason: a command is missing\n");
        check(
            "é\u{1b} x",
            "mutating: é\\u{1b} x\n           ^^^^^^\n  reason: a character here is a blank in some languages and not in others\n  remedy: put the word in quotes\n",
        );
    }
}
