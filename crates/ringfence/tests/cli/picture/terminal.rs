//! What stays on a terminal's screen, line by line: enough of one for programs that print, start lines anew and use colours.

/// The lines at the end, without blanks behind them and without empty ones at the end.
pub(super) fn lines(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).expect("what is shown is text");
    let (mut lines, mut line, mut at) = (Vec::new(), Vec::<char>::new(), 0_usize);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' => {
                lines.push(line.iter().collect::<String>().trim_end().to_owned());
                line.clear();
                at = 0;
            }
            '\r' => at = 0,
            '\u{8}' => at = at.saturating_sub(1),
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                let end = characters.find(|c| ('@'..='~').contains(c));
                // Only what erases changes what stays; colours are the picture's own.
                if end == Some('K') {
                    line.truncate(at);
                }
            }
            c if c.is_control() => {}
            c => {
                line.resize(line.len().max(at + 1), ' ');
                line[at] = c;
                at += 1;
            }
        }
    }
    lines.push(line.iter().collect::<String>().trim_end().to_owned());
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn what_stays_on_a_screen() {
    for (bytes, expected) in [
        ("a\r\nb\r\n", &["a", "b"][..]),
        ("working\rdone\x1b[K\r\n", &["done"]),
        ("\x1b[1;31mred\x1b[0m", &["red"]),
        ("abc\x08d", &["abd"]),
        ("a  \n\n\n", &["a"]),
        ("", &[]),
    ] {
        assert_eq!(lines(bytes.as_bytes()), expected, "{bytes:?}");
    }
}
