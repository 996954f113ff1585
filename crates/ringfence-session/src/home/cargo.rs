//! Cargo's `config.toml`: what may go along of it, written again key by key.

use ringfence_surface::curated::Row;
use toml::de::{DeTable, DeValue};

/// What cargo finds inside: what may go along, and that it makes no repository of its own. Its library makes a directory for hooks in
/// each, nothing of that name can be made inside, and `cargo new` would fail. What `git init` makes is made.
pub(crate) fn settings(text: &str, keys: &[Row], may_pass: &dyn Fn(&[u8]) -> bool) -> String {
    const VCS: &str = r#""cargo-new"."vcs" = "#;
    let cleaned = clean(text, keys, may_pass);
    let is_kept = |line: &&str| *line != format!("{VCS}\"git\"");
    let mut lines: Vec<&str> = cleaned.lines().filter(is_kept).collect();
    let none = format!("{VCS}\"none\"");
    if !lines.iter().any(|line| line.starts_with(VCS)) {
        lines.push(&none);
    }
    lines.join("\n") + "\n"
}

/// The settings whose key is listed and whose value may pass. A file that is no TOML gives nothing.
fn clean(text: &str, keys: &[Row], may_pass: &dyn Fn(&[u8]) -> bool) -> String {
    let Ok(document) = DeTable::parse(text) else { return String::new() };
    let mut cleaner = Cleaner { keys, may_pass, out: String::new() };
    cleaner.table(document.get_ref(), &mut Vec::new());
    cleaner.out
}

struct Cleaner<'a> {
    keys: &'a [Row],
    may_pass: &'a dyn Fn(&[u8]) -> bool,
    out: String,
}

impl Cleaner<'_> {
    fn table(&mut self, table: &DeTable<'_>, above: &mut Vec<String>) {
        for (key, value) in table.iter() {
            above.push(key.get_ref().to_string());
            match value.get_ref() {
                DeValue::Table(inner) => self.table(inner, above),
                value if self.is_listed(above) => {
                    if let Some(value) = self.value(value) {
                        let key: Vec<String> = above.iter().map(|part| quoted(part)).collect();
                        self.out += &format!("{} = {value}\n", key.join("."));
                    }
                }
                _ => {}
            }
            above.pop();
        }
    }

    fn is_listed(&self, key: &[String]) -> bool {
        self.keys.iter().any(|row| {
            let parts: Vec<&str> = row.pattern.split('.').collect();
            let goes_on = parts.last() == Some(&"*");
            let fits = parts.iter().zip(key).all(|(part, key)| *part == "*" || part == key);
            fits && (key.len() == parts.len() || goes_on && key.len() > parts.len())
        })
    }

    /// The value as TOML; `None` where a part of it may not pass.
    fn value(&self, value: &DeValue<'_>) -> Option<String> {
        Some(match value {
            DeValue::String(text) if (self.may_pass)(text.as_bytes()) => quoted(text),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(yes) => yes.to_string(),
            DeValue::Array(items) => {
                let items: Option<Vec<String>> = items.iter().map(|item| self.value(item.get_ref())).collect();
                format!("[{}]", items?.join(", "))
            }
            // A date or a table in a list says nothing that cargo knows.
            DeValue::String(_) | DeValue::Datetime(_) | DeValue::Table(_) => return None,
        })
    }
}

fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_surface::curated::settings;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let may_pass = |value: &[u8]| !crate::home::has_password(value) && value.first() != Some(&b'/');
        let cleaned = clean(text, settings::CARGO, &may_pass);
        assert_eq!(cleaned, expected, "{text}");
        assert!(DeTable::parse(&cleaned).is_ok(), "{cleaned}");
    }

    #[test]
    fn listed_keys_pass() {
        check(
            "[build]\njobs = 4\nrustflags = [\"-C\", 'link-arg=\"x\"']\n",
            "\"build\".\"jobs\" = 4\n\"build\".\"rustflags\" = [\"-C\", \"link-arg=\\\"x\\\"\"]\n",
        );
        check("[target.'cfg(unix)']\nlinker = \"clang\"\n", "\"target\".\"cfg(unix)\".\"linker\" = \"clang\"\n");
        check("[source.crates-io]\nreplace-with = \"m\"\n", "\"source\".\"crates-io\".\"replace-with\" = \"m\"\n");
        check("[profile.dev.package.x]\nopt-level = 3\n", "\"profile\".\"dev\".\"package\".\"x\".\"opt-level\" = 3\n");
        check("term.color = \"a\\u0007\"\n", "\"term\".\"color\" = \"a\\u0007\"\n");
    }

    #[test]
    fn no_repository_is_made_by_cargo() {
        let check = |text: &str, expected: &str| {
            let written = super::settings(text, settings::CARGO, &|_| true);
            assert_eq!(written, expected, "{text}");
            assert!(DeTable::parse(&written).is_ok(), "{written}");
        };
        check("", "\"cargo-new\".\"vcs\" = \"none\"\n");
        check("[cargo-new]\nvcs = \"git\"\n", "\"cargo-new\".\"vcs\" = \"none\"\n");
        check("[cargo-new]\nvcs = \"hg\"\n", "\"cargo-new\".\"vcs\" = \"hg\"\n");
        check("net.retry = 1\n", "\"net\".\"retry\" = 1\n\"cargo-new\".\"vcs\" = \"none\"\n");
    }

    #[test]
    fn secrets_wrappers_and_what_is_unknown_do_not() {
        for text in [
            "[registry]\ntoken = \"SECRET\"\n",
            "[registries.corp]\ntoken = \"SECRET\"\n",
            "[registries.corp]\nindex = \"sparse+https://u:SECRET@host/\"\n",
            "[build]\nrustc-wrapper = \"sccache\"\n",
            "[build]\ntarget-dir = \"/home/u/target\"\n",
            "[http]\nproxy = \"http://u:p@host\"\n",
            "[env]\nKEY = \"SECRET\"\n",
            "[credential-alias]\nx = \"y\"\n",
            "[build\n",
            "",
        ] {
            check(text, "");
        }
    }
}
