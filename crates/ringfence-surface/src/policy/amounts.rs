//! The values of `[limits]`: sizes, times and counts, and what is wrong with one that cannot be read.

use std::time::Duration;

use super::node::{Node, Value};
use super::shape::{Schema, Shape, integer, wrong_kind};
use crate::text::{Diagnostic, short};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No whole number, or no unit after it.
    #[error("a size is needed here")]
    NotASize,
    /// `0GiB`.
    #[error("this size is zero")]
    Zero,
    /// More bytes than 64 bits count.
    #[error("this size is too large")]
    TooLarge,
}

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

const SIZE_HELP: &str = r#"write a whole number and a unit: "512MiB", "4GiB""#;

impl Bytes {
    /// Reads `512MiB`, `4GiB`, `2GB`.
    ///
    /// # Errors
    /// When it is no number with a unit, zero, or too large.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let (number, unit) = split_number(text).ok_or(SizeError::NotASize)?;
        let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or(SizeError::NotASize)?;
        // Digits fail to parse only where there are too many of them.
        let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
        match number.checked_mul(*factor).ok_or(SizeError::TooLarge)? {
            0 => Err(SizeError::Zero),
            size => Ok(Self(size)),
        }
    }

    /// The size that `4G`, `4Gi` or `4gib` was meant to be.
    fn meant(text: &str) -> Option<String> {
        let (number, unit) = split_number(text)?;
        let is_short = |name: &str| {
            let stem = name.strip_suffix("iB");
            stem.is_some_and(|stem| stem.eq_ignore_ascii_case(unit) || name[..=stem.len()].eq_ignore_ascii_case(unit))
        };
        let mut names = SIZE_UNITS.iter().map(|(name, _)| *name);
        let name = names.find(|name| name.eq_ignore_ascii_case(unit) || is_short(name))?;
        let meant = format!("{number}{name}");
        Self::parse(&meant).is_ok().then_some(meant)
    }
}

/// The digits a text begins with, and what follows them.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() { None } else { Some((number, rest.trim_start())) }
}

impl Shape for Bytes {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let Value::String(text) = &node.value else {
            said.push(wrong_kind(node, "a size").help(SIZE_HELP));
            return None;
        };
        let report = |error: SizeError| {
            let meant = Self::meant(text).filter(|_| error == SizeError::NotASize);
            let help = meant.map_or_else(|| SIZE_HELP.to_owned(), |meant| did_you_mean_amount(&meant));
            said.push(Diagnostic::error(node.place.clone(), error.to_string()).help(help));
        };
        Self::parse(text).map_err(report).ok()
    }

    fn schema() -> Schema {
        Schema::String { about: "A number and a unit: `512MiB`, `4GiB`." }
    }
}

fn did_you_mean_amount(meant: &str) -> String {
    format!("did you mean `{}`?", short(meant))
}

/// How long a session may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub Duration);

/// Why a text is no length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// No whole numbers, each with its unit.
    #[error("a length of time is needed here")]
    NotATime,
    /// `1m1h` is more likely a slip than meant, and so is `1h1h`.
    #[error("the largest unit comes first, and each unit once")]
    Order,
    /// `0s`.
    #[error("this time is zero")]
    Zero,
    /// More seconds than 64 bits count.
    #[error("this time is too large")]
    TooLarge,
}

const TIME_HELP: &str = r#"write it as "30s", "90m", "2h" or "1h30m""#;

impl Wall {
    /// Reads `30s`, `90m`, `2h`, `1h30m`.
    ///
    /// # Errors
    /// When it is no time, zero, too large, or its units do not run from large to small.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let parts = time_parts(text).ok_or(TimeError::NotATime)?;
        if !parts.is_sorted_by(|(before, _), (after, _)| before > after) {
            return Err(TimeError::Order);
        }
        let mut total: u64 = 0;
        for (unit, part) in &parts {
            let number: u64 = part[..part.len() - 1].parse().map_err(|_| TimeError::TooLarge)?;
            let seconds = number.checked_mul(*unit).and_then(|seconds| total.checked_add(seconds));
            total = seconds.ok_or(TimeError::TooLarge)?;
        }
        if total == 0 { Err(TimeError::Zero) } else { Ok(Self(Duration::from_secs(total))) }
    }

    /// The time that `30m1h` was meant to be.
    fn meant(text: &str) -> Option<String> {
        let mut parts = time_parts(text)?;
        parts.sort_by_key(|(unit, _)| std::cmp::Reverse(*unit));
        let meant: String = parts.iter().map(|(_, part)| *part).collect();
        Self::parse(&meant).is_ok().then_some(meant)
    }
}

/// Each number with its unit, and the seconds that unit has. A unit is one byte.
fn time_parts(text: &str) -> Option<Vec<(u64, &str)>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let unit = match rest.as_bytes().get(number.len())? {
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        parts.push((unit, &rest[..=number.len()]));
        rest = &after[1..];
    }
    if parts.is_empty() { None } else { Some(parts) }
}

impl Shape for Wall {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let Value::String(text) = &node.value else {
            said.push(wrong_kind(node, "a length of time").help(TIME_HELP));
            return None;
        };
        let report = |error: TimeError| {
            let meant = Self::meant(text).filter(|_| error == TimeError::Order);
            let help = meant.map_or_else(|| TIME_HELP.to_owned(), |meant| did_you_mean_amount(&meant));
            said.push(Diagnostic::error(node.place.clone(), error.to_string()).help(help));
        };
        Self::parse(text).map_err(report).ok()
    }

    fn schema() -> Schema {
        Schema::String { about: "A length of time: `30s`, `90m`, `2h`, `1h30m`." }
    }
}

/// A number of processes and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pids(pub u32);

impl Shape for Pids {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        integer(node, 1, 4_194_304, said).and_then(|n| u32::try_from(n).ok()).map(Self)
    }

    fn schema() -> Schema {
        Schema::Integer { least: 1, most: 4_194_304 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("4GiB", Ok(4 << 30)),
            ("512 MiB", Ok(512 << 20)),
            ("2GB", Ok(2_000_000_000)),
            ("1B", Ok(1)),
            ("0GiB", Err(SizeError::Zero)),
            ("4", Err(SizeError::NotASize)),
            ("4G", Err(SizeError::NotASize)),
            ("GiB", Err(SizeError::NotASize)),
            ("-1GiB", Err(SizeError::NotASize)),
            ("1.5GiB", Err(SizeError::NotASize)),
            ("99999999999TiB", Err(SizeError::TooLarge)),
            ("99999999999999999999999B", Err(SizeError::TooLarge)),
            ("4gib", Err(SizeError::NotASize)),
            ("4é", Err(SizeError::NotASize)),
            ("", Err(SizeError::NotASize)),
        ] {
            assert_eq!(Bytes::parse(text).map(|b| b.0), expected, "{text}");
        }
    }

    #[test]
    fn sizes_that_were_meant() {
        for (text, expected) in [
            ("4G", Some("4GiB")),
            ("4 g", Some("4GiB")),
            ("512Mi", Some("512MiB")),
            ("4gib", Some("4GiB")),
            ("4gb", Some("4GB")),
            ("4b", Some("4B")),
            ("0G", None),
            ("4", None),
            ("4x", None),
            ("4é", None),
            ("G", None),
        ] {
            assert_eq!(Bytes::meant(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("2h", Ok(7200)),
            ("1h30m", Ok(5400)),
            ("90s", Ok(90)),
            ("1d", Ok(86_400)),
            ("0s", Err(TimeError::Zero)),
            ("0h0m", Err(TimeError::Zero)),
            ("", Err(TimeError::NotATime)),
            ("2", Err(TimeError::NotATime)),
            ("2 h", Err(TimeError::NotATime)),
            ("1m1h", Err(TimeError::Order)),
            ("1h1h", Err(TimeError::Order)),
            ("2x", Err(TimeError::NotATime)),
            ("h", Err(TimeError::NotATime)),
            ("99999999999999999999h", Err(TimeError::TooLarge)),
            ("9999999999999999h", Err(TimeError::TooLarge)),
            ("2é", Err(TimeError::NotATime)),
        ] {
            assert_eq!(Wall::parse(text).map(|w| w.0.as_secs()), expected, "{text}");
        }
    }

    #[test]
    fn times_that_were_meant() {
        for (text, expected) in [("30m1h", Some("1h30m")), ("5s1d", Some("1d5s")), ("1h1h", None), ("2x", None)] {
            assert_eq!(Wall::meant(text).as_deref(), expected, "{text}");
        }
    }
}
