//! Programs whose operands say more than a table can: `date`, `tar`, `tee`, `unzip`, and those that only tell their version.

use super::super::arguments::{Argument, Count, Grammar, Stray, unknown};
use super::super::fault::Fault;
use super::super::judge::Judge;

type Checked = Result<(), Fault>;

/// Programs that may be asked for their version, and for nothing else.
const VERSIONED: &[&str] = &[
    "cc", "clang", "cmake", "curl", "docker", "g++", "gcc", "ld", "make", "node", "perl", "php", "podman", "python",
    "python3", "ruby", "strace", "vim", "wget", "zsh",
];

/// `PROGRAM --version`.
pub(super) fn tells_version(name: &str, words: &[Argument]) -> bool {
    matches!(words, [only] if only.known() == Some(b"--version")) && VERSIONED.binary_search(&name).is_ok()
}

/// What `getent` reads from files of the machine. `hosts`, `ahosts`, `ahostsv4`, `ahostsv6`, `networks` and `netgroup` ask name
/// servers, and the name in a query can carry data to the owner of its domain.
const LOCAL_DATABASES: &[&[u8]] = &[b"group", b"passwd", b"protocols", b"rpc", b"services", b"shells"];

const GETENT: Grammar = Grammar { short: "", long: "help version", stray: Stray::Refused };

/// `getent DATABASE [KEY...]`.
pub(super) fn getent(_: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let taken = GETENT.take("getent", words)?;
    match taken.operands.first() {
        Some(word) if !word.known().is_some_and(|name| LOCAL_DATABASES.contains(&name)) => {
            let message = format!("`getent` may send the names it is asked for to name servers: {}", word.shown());
            Err(Fault::new(&word.span, message))
        }
        _ => Ok(()),
    }
}

const DATE: Grammar = Grammar {
    short: "d:r:RuI::",
    long: "date= debug iso-8601=? reference= resolution rfc-3339= rfc-email universal utc",
    stray: Stray::Refused,
};

/// `date +FORMAT`; any other operand is a time to set.
pub(super) fn date(_: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let taken = DATE.take("date", words)?;
    match taken.operands.iter().find(|word| word.text.first() != Some(&b'+') || word.count != Count::One) {
        Some(word) => Err(Fault::new(&word.span, format!("{} may be a time that `date` sets", word.shown()))),
        None => Ok(()),
    }
}

const TEE: Grammar = Grammar { short: "ai", long: "append ignore-interrupts", stray: Stray::Refused };

pub(super) fn tee(_: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let taken = TEE.take("tee", words)?;
    match taken.operands.iter().find(|word| word.known() != Some(b"/dev/null")) {
        Some(word) => Err(Fault::new(&word.span, format!("`tee` writes {}", word.shown())).with("leave it out")),
        None => Ok(()),
    }
}

const TAR: Grammar = Grammar {
    short: "tvzjJf:C:",
    long: "bzip2 exclude= file= force-local gzip list no-wildcards verbose wildcards xz zstd",
    stray: Stray::Refused,
};

/// `tar -t`. A name with a colon is a file on another machine, for which a program is started.
pub(super) fn tar(_: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    let mut words = words.to_vec();
    if let Some(first) = words.first_mut() {
        let is_old = first.known().is_some_and(|text| text.first().is_some_and(u8::is_ascii_lowercase));
        if is_old {
            let text = [b"-", first.text.as_slice()].concat();
            // In the old spelling `f` and `C` take the next words wherever they stand.
            if text.iter().position(|byte| matches!(byte, b'f' | b'C')).is_some_and(|at| at + 1 != text.len()) {
                return Err(unknown("tar", first));
            }
            *first = Argument::literal(&text, &first.span);
        }
    }
    let taken = TAR.take("tar", &words)?;
    if !taken.has(&["t", "list"]) {
        return Err(Fault::new(&program.span, "`tar` without `-t` writes files").with("list with `tar -tf`"));
    }
    for (name, value) in &taken.options {
        let Some(file) = value.as_ref().filter(|_| matches!(name.as_str(), "f" | "file") || name.starts_with('-'))
        else {
            continue;
        };
        let local = file.text.iter().position(|byte| *byte == b'/');
        let colon = file.text.iter().position(|byte| *byte == b':');
        let is_local = match (local, colon) {
            (Some(slash), Some(colon)) => slash < colon,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => file.known().is_some(),
        };
        if !is_local {
            let fault = Fault::new(&file.span, format!("{} may be a file on another machine", file.shown()));
            return Err(fault.with("put `./` before it"));
        }
    }
    Ok(())
}

const TREE: Grammar = Grammar {
    short: "adfilxL:P:I:psugDFqNQrtcUvhAnCSJX",
    long: "\
        charset= device dirsfirst du filelimit= filesfirst gitfile= gitignore help ignore-case info inodes \
        matchdirs noreport prune si sort=? timefmt= version",
    stray: Stray::Refused,
};

/// `tree` takes the argument of a letter from the next word and goes on with the letters: `-Po x y` writes `y`.
pub(super) fn tree(_: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let goes_on = |word: &&Argument| {
        let letters = word.text.strip_prefix(b"-").filter(|text| !text.starts_with(b"-")).unwrap_or_default();
        let Some(at) = letters.iter().position(|letter| matches!(letter, b'L' | b'P' | b'I')) else { return false };
        let after = letters.get(at + 1..).unwrap_or_default();
        word.known().is_none()
            || !(after.is_empty() || letters.get(at) == Some(&b'L') && after.iter().all(u8::is_ascii_digit))
    };
    let is_end = |word: &&Argument| word.known() != Some(b"--");
    match words.iter().take_while(is_end).find(goes_on) {
        Some(word) => Err(unknown("tree", word)),
        None => TREE.take("tree", words).map(|_| ()),
    }
}

/// `xxd` compares the beginnings of its options itself: `-ps` is one, and takes no argument. A second operand is written.
pub(super) fn xxd(_: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        match word.known() {
            Some(b"-a" | b"-b" | b"-C" | b"-d" | b"-e" | b"-i" | b"-p" | b"-ps" | b"-u") => rest = after,
            Some(b"-c" | b"-g" | b"-l" | b"-s") => match after.split_first() {
                Some((value, after)) if value.known().is_some_and(is_number) => rest = after,
                _ => return Err(unknown("xxd", word)),
            },
            Some([b'-', b'c' | b'g' | b'l' | b's', value @ ..]) if is_number(value) => rest = after,
            Some(text) if text.first() != Some(&b'-') && after.is_empty() => rest = after,
            None if !word.may_be_option() && word.count == Count::One && after.is_empty() => rest = after,
            _ => return Err(unknown("xxd", word)),
        }
    }
    Ok(())
}

const UNZIP: Grammar = Grammar { short: "lvtpqZ1", long: "", stray: Stray::Refused };

pub(super) fn unzip(_: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    let taken = UNZIP.take("unzip", words)?;
    if taken.has(&["l", "v", "t", "p", "Z"]) {
        return Ok(());
    }
    Err(Fault::new(&program.span, "`unzip` without `-l` writes files").with("list with `unzip -l`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(VERSIONED.is_sorted());
    }
}
