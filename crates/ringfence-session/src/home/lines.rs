//! Settings of the form `key = value`, with or without sections: what may go along of them.

use ringfence_surface::curated::Row;
use ringfence_surface::curated::packs::Format;

/// The lines whose key is listed and whose value may pass.
pub(crate) fn clean(text: &[u8], format: Format, keys: &[Row], may_pass: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut setting: Vec<&[u8]> = Vec::new();
    let goes_on = |line: &[u8]| format == Format::Sections && line.first().is_some_and(u8::is_ascii_whitespace);
    for line in text.split(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii();
        if goes_on(line) && !setting.is_empty() {
            setting.push(trimmed);
            continue;
        }
        flush(&mut setting, &mut out, format, keys, may_pass);
        match trimmed.first() {
            None | Some(b'#' | b';') => {}
            Some(b'[') if format == Format::Sections => out.extend([trimmed, b"\n"].concat()),
            Some(_) => setting.push(trimmed),
        }
    }
    flush(&mut setting, &mut out, format, keys, may_pass);
    out
}

/// Writes one setting with all its lines, if it passes.
fn flush(setting: &mut Vec<&[u8]>, out: &mut Vec<u8>, format: Format, keys: &[Row], may_pass: &dyn Fn(&[u8]) -> bool) {
    let lines = std::mem::take(setting);
    let Some((first, more)) = lines.split_first() else { return };
    // Without `=` npm means true.
    let equals = first.iter().position(|byte| *byte == b'=').unwrap_or(first.len());
    let key = first[..equals].trim_ascii();
    let value = first.get(equals + 1..).unwrap_or_default().trim_ascii();
    if is_listed(key, format, keys) && std::iter::once(&value).chain(more).all(|value| may_pass(unquoted(value))) {
        out.extend([first, b"\n".as_slice()].concat());
        for line in more {
            out.extend([b"    ", *line, b"\n"].concat());
        }
    }
}

fn is_listed(key: &[u8], format: Format, keys: &[Row]) -> bool {
    // npm writes lists as `key[] = value`; pip takes `_` for `-`.
    let key = key.strip_suffix(b"[]").unwrap_or(key).to_vec();
    let key = match format {
        Format::Sections => key.iter().map(|b| if *b == b'_' { b'-' } else { b.to_ascii_lowercase() }).collect(),
        Format::Lines | Format::Toml => key,
    };
    keys.iter().any(|row| match row.pattern.strip_prefix('*') {
        Some(end) => key.ends_with(end.as_bytes()) && !key.starts_with(b"//"),
        None => key == row.pattern.as_bytes(),
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_surface::curated::settings;

    fn may_pass(value: &[u8]) -> bool {
        !crate::home::has_password(value) && value.first() != Some(&b'/')
    }

    #[track_caller]
    fn check(format: Format, keys: &[Row], text: &str, expected: &str) {
        let cleaned = clean(text.as_bytes(), format, keys, &may_pass);
        assert_eq!(String::from_utf8(cleaned).unwrap(), expected, "{text}");
    }

    #[test]
    fn npm() {
        let npm = |text, expected| check(Format::Lines, settings::NPM, text, expected);
        npm("registry=https://r.example/\n//r.example/:_authToken=SECRET\n", "registry=https://r.example/\n");
        npm("; c\n# c\n\n  fund = false\r\n_auth=SECRET\n", "fund = false\n");
        npm("@corp:registry=https://c.example/\n", "@corp:registry=https://c.example/\n");
        npm("registry=https://u:SECRET@r.example/\n", "");
        npm("//c.example/:registry=x\nsave-exact\nignore-scripts=true\n", "save-exact\nignore-scripts=true\n");
        npm("cafile=/home/u/ca.pem\nkey=\"SECRET\"\nproxy=http://p\n", "");
    }

    #[test]
    fn pip() {
        let pip = |text, expected| check(Format::Sections, settings::PIP, text, expected);
        pip("[global]\nindex_url = https://i.example/\n", "[global]\nindex_url = https://i.example/\n");
        pip("[global]\nindex-url = https://u:SECRET@i.example/\ntimeout = 3\n", "[global]\ntimeout = 3\n");
        pip(
            "[install]\nextra-index-url =\n    https://a.example/\n    https://b.example/\nuser = x\n    SECRET\n",
            "[install]\nextra-index-url =\n    https://a.example/\n    https://b.example/\n",
        );
        pip("[global]\nextra-index-url = https://a\n    https://u:SECRET@b/\n", "[global]\n");
    }

    #[test]
    fn go() {
        let go = |text, expected| check(Format::Lines, settings::GO, text, expected);
        go("GOPRIVATE=corp.example/*\nGOPROXY=https://u:SECRET@p.example\n", "GOPRIVATE=corp.example/*\n");
        go("GOFLAGS=-mod=mod\nCC=/home/u/cc\nGOAUTH=netrc\n", "GOFLAGS=-mod=mod\n");
    }
}
