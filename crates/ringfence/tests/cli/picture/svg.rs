//! A screen as a picture, and back: one text to a row, so that people can search and copy it, and a test can read it.

use std::fmt::Write as _;

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Row {
    /// Behind a prompt.
    Typed(String),
    /// What came back.
    Shown(String),
}

/// Of a character, in tenths of a pixel: each row is stretched to that, whatever font there is.
const WIDE: usize = 84;
const HIGH: usize = 20;
const COLUMNS: usize = 96;
const EDGE: usize = 20;
/// The bar of the window.
const TOP: usize = 34;

/// The picture.
pub(super) fn draw(rows: &[Row]) -> String {
    let mut body = String::new();
    let mut y = TOP + HIGH;
    for (number, row) in rows.iter().enumerate() {
        let (class, text) = match row {
            Row::Typed(text) => ("t", format!("$ {text}")),
            Row::Shown(text) if text.starts_with("ringfence: ") || text == "…" => ("r", text.clone()),
            Row::Shown(text) => ("o", text.clone()),
        };
        if number > 0 && class == "t" {
            y += HIGH / 2;
        }
        let characters: Vec<char> = text.chars().collect();
        for (part, row) in characters.chunks(COLUMNS).enumerate() {
            let more = if part == 0 { "" } else { " c" };
            let (length, text) = (tenths(row.len() * WIDE), escaped(&row.iter().collect::<String>()));
            let _ = writeln!(
                body,
                "<text class=\"{class}{more}\" x=\"{EDGE}\" y=\"{y}\" textLength=\"{length}\">{text}</text>"
            );
            y += HIGH;
        }
    }
    let (width, height) = (tenths(COLUMNS * WIDE + 20 * EDGE), y);
    let mut all =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">\n");
    all += "<title>A terminal in which commands run behind the fence</title>\n";
    all += "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}\
            .t{fill:#7ee787;font-weight:600}.r{fill:#79c0ff}.o{fill:#e6edf3}</style>\n";
    let _ = writeln!(all, "<rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\"/>");
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let _ = writeln!(all, "<circle cx=\"{}\" cy=\"18\" r=\"6\" fill=\"{colour}\"/>", EDGE + 6 + at * 20);
    }
    all + &body + "</svg>\n"
}

/// What a picture shows.
pub(super) fn read(picture: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in picture.lines().filter_map(|line| line.strip_prefix("<text class=\"")) {
        let (class, rest) = line.split_once('"').expect("a class ends");
        let text = rest.split_once('>').and_then(|(_, text)| text.strip_suffix("</text>")).expect("a row is one text");
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        match (class, rows.last_mut()) {
            (class, Some(Row::Typed(last) | Row::Shown(last))) if class.ends_with(" c") => last.push_str(&text),
            ("t", _) => rows.push(Row::Typed(text.strip_prefix("$ ").expect("a prompt").to_owned())),
            _ => rows.push(Row::Shown(text)),
        }
    }
    rows
}

fn tenths(number: usize) -> String {
    format!("{}.{}", number / 10, number % 10)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn what_is_drawn_is_read() {
    let long = "x".repeat(COLUMNS * 2 + 3);
    let rows = [
        Row::Typed("echo 'a < b' && true".to_owned()),
        Row::Shown("ringfence: writes".to_owned()),
        Row::Shown("…".to_owned()),
        Row::Typed(long.clone()),
        Row::Shown("  &amp; <é>".to_owned()),
        Row::Shown(long),
    ];
    assert_eq!(read(&draw(&rows)), rows);
}
