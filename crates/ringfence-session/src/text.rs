//! Bytes in JSON, and moments.

use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_surface::{AbsPath, Shown};
use serde::{Deserialize, Serialize};

/// Bytes that are mostly text: a string where they are UTF-8, otherwise their hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    /// As they are.
    Text(String),
    /// By their digits.
    Hex {
        /// Two for each byte.
        hex: String,
    },
}

impl Bytes {
    /// From bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex { hex: hex(bytes) },
        }
    }

    /// The bytes again; `None` where the digits are none.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Hex { hex } => {
                let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
                let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
                Some(digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
            }
        }
    }

    /// The bytes as a path; `None` where they are none.
    #[must_use]
    pub fn path(&self) -> Option<AbsPath> {
        AbsPath::lexical(&self.bytes()?).ok()
    }

    /// For a terminal.
    #[must_use]
    pub fn shown(&self) -> String {
        Shown(&self.bytes().unwrap_or_default()).to_string()
    }
}

/// Two hexadecimal digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Something that nobody guesses: 32 hexadecimal digits.
///
/// # Errors
/// When the kernel has no random bytes.
pub fn new_token() -> std::io::Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(hex(&random))
}

/// Takes as long for the first byte that differs as for the last.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && differs == 0
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A moment in UTC: `2026-11-15 16:02:11Z`.
#[must_use]
pub fn moment(ms: u64) -> String {
    let (days, second) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // The calendar from a day number, counted from the first of March of the year 0.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// A number of bytes for people: `512 bytes`, `1.5 KiB`, `3.2 TiB`.
pub fn human(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
            format!("{whole}.{} {unit}", (u128::from(rest) * 10) >> shift)
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json() {
        for bytes in [b"/a b".as_slice(), b"/caf\xe9\n", b"", b"\xff"] {
            let json = serde_json::to_string(&Bytes::new(bytes)).unwrap();
            let back: Bytes = serde_json::from_str(&json).unwrap();
            assert_eq!(back.bytes().unwrap(), bytes);
        }
        for bad in ["{\"hex\":\"f\"}", "{\"hex\":\"zz\"}"] {
            assert_eq!(serde_json::from_str::<Bytes>(bad).unwrap().bytes(), None, "{bad}");
        }
    }
}
