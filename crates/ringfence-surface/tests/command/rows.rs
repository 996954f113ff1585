//! Reads the tables.

/// What a row says.
#[derive(Debug)]
pub(crate) enum Expected {
    ReadOnly,
    Mutating(String),
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) file: &'static str,
    pub(crate) number: usize,
    pub(crate) expected: Expected,
    pub(crate) line: Vec<u8>,
}

const FILES: &[(&str, &str)] = &[
    ("bypass.txt", include_str!("bypass.txt")),
    ("programs.txt", include_str!("programs.txt")),
    ("syntax.txt", include_str!("syntax.txt")),
];

/// All rows of all tables.
pub(crate) fn rows() -> Vec<Row> {
    FILES
        .iter()
        .flat_map(|(file, text)| text.lines().enumerate().filter_map(|(at, line)| row(file, at + 1, line)))
        .collect()
}

fn row(file: &'static str, number: usize, text: &str) -> Option<Row> {
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    let (class, line) = text.split_once(" | ").unwrap_or_else(|| panic!("{file}:{number} has no line"));
    let expected = match class.split_once(' ').map_or((class, ""), |(class, fragment)| (class, fragment.trim())) {
        ("read-only", "") => Expected::ReadOnly,
        ("mutating", fragment) if !fragment.is_empty() => Expected::Mutating(fragment.to_owned()),
        _ => panic!("{file}:{number} has no class"),
    };
    Some(Row { file, number, expected, line: written_out(line) })
}

fn written_out(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        match (byte, (byte == b'\\').then(|| rest.next()).flatten()) {
            (b'\\', Some(b'n')) => bytes.push(b'\n'),
            (b'\\', Some(b't')) => bytes.push(b'\t'),
            (b'\\', Some(b'x')) => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            (b'\\', Some(b'\\')) => bytes.push(b'\\'),
            (b'\\', other) => panic!("\\{} in {line}", other.map_or(' ', char::from)),
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}
