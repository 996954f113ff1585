//! Names of refs.

/// Does git take this for the full name of a ref?
pub fn is_valid(name: &[u8]) -> bool {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let is_component = |part: &[u8]| !part.is_empty() && part[0] != b'.' && !part.ends_with(b".lock");
    !has(b"..")
        && !has(b"@{")
        && !name.ends_with(b".")
        && name != b"@"
        && name.split(|byte| *byte == b'/').all(is_component)
        && !name.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || b"~^:?*[\\".contains(byte))
}

/// Is there nothing in a name that a shell, a prompt or a terminal expands?
pub fn is_inert(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let is_plain = |c: char| match c {
        _ if c.is_ascii() => c.is_ascii_alphanumeric() || "/._-+=#@,".contains(c),
        // Direction and joining marks, and what shows as nothing.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => false,
        _ => !c.is_control(),
    };
    text.chars().all(is_plain)
}
