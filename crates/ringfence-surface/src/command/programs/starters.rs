//! Programs that start other programs: what they start is looked at in turn.

use super::super::arguments::{Argument, Count, Grammar, Stray, Taken, stray, unknown};
use super::super::fault::Fault;
use super::super::judge::Judge;
use super::super::variables;
use super::Special;

/// Sorted by name.
pub(super) const STARTERS: &[(&str, Special)] = &[
    ("bash", shell),
    ("command", command),
    ("dash", shell),
    ("env", env),
    ("nice", nice),
    ("sh", shell),
    ("stdbuf", stdbuf),
    ("timeout", timeout),
    ("xargs", xargs),
];

type Checked = Result<(), Fault>;

/// `sh -c SCRIPT`, and nothing else: a login shell reads files of the home directory, and a script in a file can be anything.
fn shell(judge: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    match words {
        [flag, script, ..] if flag.known() == Some(b"-c") => match script.known() {
            Some(text) => judge.nested(text, script),
            None => Err(Fault::new(&script.span, format!("the script {} is not known before it runs", script.shown()))),
        },
        [only] if only.known() == Some(b"--version") => Ok(()),
        _ => Err(Fault::new(&program.span, format!("{} runs code", program.shown())).with("write the commands out")),
    }
}

const COMMAND: Grammar = Grammar { short: "pvV", long: "", stray: Stray::Refused };

fn command(judge: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let (taken, rest) = COMMAND.lead("command", words)?;
    if taken.has(&["v", "V"]) { Ok(()) } else { judge.run(rest) }
}

const ENV: Grammar = Grammar { short: "0u:v", long: "null unset=", stray: Stray::Refused };

/// `env NAME=value PROGRAM`. An empty environment (`-i`) would lose the settings that keep git quiet.
fn env(judge: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let (taken, mut rest) = ENV.lead("env", words)?;
    written_out("env", &taken, 'u')?;
    for (_, value) in taken.options.iter().filter(|(name, _)| name == "u" || name == "unset") {
        let Some(name) = value else { continue };
        let empty = Argument::literal(b"", &name.span);
        variables::check_given(name.known().unwrap_or_default(), &empty, &name.span)?;
    }
    while let Some((word, after)) = rest.split_first() {
        let Some(at) = word.text.iter().position(|byte| *byte == b'=') else { break };
        let value = match word.known() {
            Some(text) => Argument::literal(text.get(at + 1..).unwrap_or_default(), &word.span),
            None => Argument::unknown(&word.span, Count::One, &word.text),
        };
        variables::check_given(word.text.get(..at).unwrap_or_default(), &value, &word.span)?;
        rest = after;
    }
    judge.run(rest)
}

const NICE: Grammar = Grammar { short: "n:#", long: "adjustment=", stray: Stray::Refused };

fn nice(judge: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let (_, rest) = NICE.lead("nice", words)?;
    judge.run(rest)
}

const STDBUF: Grammar = Grammar { short: "i:o:e:", long: "error= input= output=", stray: Stray::Refused };

fn stdbuf(judge: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let (_, rest) = STDBUF.lead("stdbuf", words)?;
    judge.run(rest)
}

const TIMEOUT: Grammar =
    Grammar { short: "k:s:v", long: "foreground kill-after= preserve-status signal= verbose", stray: Stray::Refused };

fn timeout(judge: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    let (_, rest) = TIMEOUT.lead("timeout", words)?;
    match rest.split_first() {
        Some((time, rest)) if time.known().is_some() => judge.run(rest),
        Some((time, _)) => Err(stray("timeout", time)),
        None => Err(unknown("timeout", program)),
    }
}

const XARGS: Grammar = Grammar {
    short: "0rtxn:P:L:s:d:E:a:I:",
    long: "arg-file= delimiter= max-args= max-chars= max-procs= no-run-if-empty null verbose",
    stray: Stray::Refused,
};

/// `xargs PROGRAM`: words that nobody knows are added, or take the place of a sign. Of two signs the last counts. Where a
/// number of words or lines is given as well, either may happen.
fn xargs(judge: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    let (taken, rest) = XARGS.lead("xargs", words)?;
    written_out("xargs", &taken, 'I')?;
    let mut signs = taken.options.iter().filter(|(name, _)| name == "I");
    let sign = signs.next();
    if signs.next().is_some() {
        return Err(unknown("xargs", program));
    }
    if sign.is_none() || taken.has(&["n", "max-args", "L"]) {
        let mut words = rest.to_vec();
        if !words.is_empty() {
            words.push(Argument::unknown(&program.span, Count::Split, b"what xargs adds"));
        }
        judge.run(&words)?;
    }
    let Some((_, sign)) = sign else { return Ok(()) };
    let Some(sign) = sign.as_ref().and_then(Argument::known).filter(|sign| !sign.is_empty()) else {
        return Err(unknown("xargs", program));
    };
    let words: Vec<Argument> = rest.iter().map(|word| replaced(word, sign)).collect();
    judge.run(&words)
}

/// Is the argument of this option known? Of `-I"$x"` only the beginning is.
fn written_out(program: &str, taken: &Taken<'_>, option: char) -> Checked {
    match taken.options.iter().find(|(name, _)| name.starts_with('-') && name.contains(option)) {
        Some((_, Some(word))) => Err(unknown(program, word)),
        _ => Ok(()),
    }
}

/// A word in which something nobody knows takes the place of a sign.
pub(super) fn replaced(word: &Argument, sign: &[u8]) -> Argument {
    let Some(at) = word.text.windows(sign.len()).position(|window| window == sign) else { return word.clone() };
    let mut changed = Argument::unknown(&word.span, Count::One, &word.text);
    changed.text = word.text.get(..at).unwrap_or_default().to_vec();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(STARTERS.is_sorted_by_key(|(name, _)| *name));
    }
}
