//! Small things that lock files are made of: names, hexadecimal and base64.

use ringfence_surface::AbsPath;

/// The names in a directory; none where it cannot be listed.
pub(super) fn names(dir: &AbsPath) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(crate::walk::os_path(dir)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_encoded_bytes()).collect()
}

/// A name that is one component of a path and nothing else, made of what package names are made of.
pub(super) fn is_plain(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+~!".contains(byte);
    !name.is_empty() && name.len() < 200 && name.iter().all(allowed) && name[0] != b'.'
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = ALPHABET[(group >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// `None` for what is no base64.
pub(super) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let (mut group, mut bits, mut out) = (0_u32, 0, Vec::new());
    for byte in text {
        let value = ALPHABET.iter().position(|letter| letter == byte)?;
        group = (group << 6 | u32::try_from(value).ok()?) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((group >> bits & 255) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_both_ways() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xff\xfe\xfd", "//79")]
        {
            assert_eq!(base64(bytes), text);
            assert_eq!(from_base64(text.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(from_base64(b"a b"), None);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_base64(base64(&all).as_bytes()).unwrap(), all);
    }

    #[test]
    fn plain_names() {
        for name in ["serde", "v1.2.3-0.20200101-abc+incompatible", "!burnt!sushi", "a_b~1"] {
            assert!(is_plain(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "a b", "a\0"] {
            assert!(!is_plain(name.as_bytes()), "{name}");
        }
    }
}
