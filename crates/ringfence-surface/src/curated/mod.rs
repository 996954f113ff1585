//! The curated tables: what is never read, never written, never connected to, and what toolchains need.
//!
//! Each row says why it is there, and `explain` shows that reason to the person who ran into it. The tables are data:
//! nothing here expands a pattern or looks at a file. They are sorted so that a missing row is easy to see and two
//! additions do not conflict; the tests below hold every table to the same rules.
//!
//! The language of path patterns: `~/x`, `$NAME/x` (an unset variable drops the row, so what a variable may move is
//! listed under both its names), an absolute path, or `**/x` for any depth below every root of the surface. `*`, `?`,
//! `[..]` and a whole-segment `**` are wildcards. A pattern covers the path and everything below it.

/// One row of a curated table: what, and why it is there.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// A path pattern, a variable's name, or a host pattern, by table.
    pub pattern: &'static str,
    /// Why it is listed, in a few words without a full stop.
    pub reason: &'static str,
}

/// Writes a table one row to a line, which the struct's own syntax is too wide for.
macro_rules! rows {
    ($($pattern:literal => $reason:literal,)*) => {
        &[$($crate::curated::Row { pattern: $pattern, reason: $reason }),*]
    };
}

pub mod env;
pub mod escape;
pub mod groups;
pub(crate) mod magic_links;
pub mod packs;
pub mod persistence;
pub mod protected;
pub mod sensitive;
pub mod settings;
pub mod sockets;
pub mod system;

/// A table with the name that a failing test shows.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// What it is called.
    pub name: &'static str,
    /// What its patterns are.
    pub kind: TableKind,
    /// Its rows.
    pub rows: &'static [Row],
}

/// What the patterns of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Paths, in the language above.
    Paths,
    /// Paths below a directory that the table's owner names.
    Relative,
    /// Names of environment variables, with `*` at an end.
    Variables,
    /// Network hosts.
    Hosts,
    /// Keys of settings, with `*` for a part or at an end.
    Keys,
}

/// Every table there is.
#[must_use]
pub fn tables() -> Vec<Table> {
    let table = |name, kind, rows| Table { name, kind, rows };
    let mut all = vec![
        table("sensitive", TableKind::Paths, sensitive::SENSITIVE),
        table("escapes", TableKind::Paths, escape::ESCAPES),
        table("authority sockets", TableKind::Paths, sockets::AUTHORITY_SOCKETS),
        table("protected anywhere", TableKind::Paths, protected::PROTECTED_ANYWHERE),
        table("third party", TableKind::Paths, protected::THIRD_PARTY),
        table("protected home", TableKind::Paths, persistence::PROTECTED_HOME),
        table("lock files", TableKind::Paths, protected::LOCKFILES),
        table("git directory", TableKind::Relative, protected::GIT_DIR),
        table("other work trees", TableKind::Relative, protected::GIT_OTHER_TREES),
        table("system", TableKind::Paths, system::SYSTEM),
        table("private, writable", TableKind::Paths, system::PRIVATE_WRITABLE),
        table("private, readable", TableKind::Paths, system::PRIVATE_READABLE),
        table("settings of git", TableKind::Keys, settings::GIT),
        table("settings of a repository made inside", TableKind::Keys, settings::GIT_REPOSITORY),
        table("variables that pass", TableKind::Variables, env::PASS),
        table("variables that never pass", TableKind::Variables, env::NEVER),
    ];
    all.extend(groups::GROUPS.iter().map(|group| table(group.name, TableKind::Hosts, group.hosts)));
    for pack in packs::PACKS {
        all.push(table(pack.name, TableKind::Paths, pack.reads));
        all.push(table(pack.name, TableKind::Variables, pack.env));
        all.extend(pack.settings.iter().map(|settings| table(pack.name, TableKind::Keys, settings.keys)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::PathRule;
    use crate::template::TemplateKind;

    /// A variable that moves a directory, and where the directory is without it.
    const MOVABLE: &[(&str, &str)] = &[
        ("$CARGO_HOME", "~/.cargo"),
        ("$GOPATH", "~/go"),
        ("$NVM_DIR", "~/.nvm"),
        ("$PYENV_ROOT", "~/.pyenv"),
        ("$RUSTUP_HOME", "~/.rustup"),
        ("$XDG_CACHE_HOME", "~/.cache"),
        ("$XDG_CONFIG_HOME", "~/.config"),
        ("$XDG_DATA_HOME", "~/.local/share"),
    ];

    /// Variables of the closed set (G7) that have no place of their own in the home directory.
    const FIXED: &[&str] = &["$GOROOT", "$HOME", "$JAVA_HOME", "$USER"];

    /// What is wrong with a table, or nothing.
    fn faults(table: &Table) -> Vec<String> {
        let mut faults = Vec::new();
        for pair in table.rows.windows(2) {
            if pair[0].pattern.as_bytes() >= pair[1].pattern.as_bytes() {
                faults.push(format!("{:?} is not before {:?}", pair[0].pattern, pair[1].pattern));
            }
        }
        for row in table.rows {
            if row.reason.is_empty() || row.reason.ends_with('.') || row.reason.trim() != row.reason {
                faults.push(format!("{:?} has the reason {:?}", row.pattern, row.reason));
            }
            let sound = match table.kind {
                TableKind::Paths => path_is_sound(table.name, row.pattern),
                TableKind::Relative => !row.pattern.starts_with(['/', '~', '$']) && segments_are_sound(row.pattern),
                TableKind::Variables => name_is_sound(row.pattern),
                TableKind::Hosts | TableKind::Keys => !row.pattern.is_empty() && row.pattern != "*",
            };
            if !sound {
                faults.push(format!("{:?} is not in the language of its table", row.pattern));
            }
        }
        faults
    }

    fn path_is_sound(table: &str, pattern: &str) -> bool {
        let (first, rest) = pattern.split_once('/').unwrap_or((pattern, "x"));
        let sockets_only = ["$SSH_AUTH_SOCK", "$XDG_RUNTIME_DIR"].contains(&first) && table == "authority sockets";
        let variable = MOVABLE.iter().any(|(name, _)| *name == first) || FIXED.contains(&first) || sockets_only;
        (variable || ["", "~", "**"].contains(&first)) && segments_are_sound(rest)
    }

    /// A trailing `**` would say nothing that the pattern does not say already, and `a**` is not a wildcard of ours.
    fn segments_are_sound(pattern: &str) -> bool {
        let plain = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
        let stars = |segment: &str| segment == "**" || !segment.contains("**");
        pattern.split('/').all(|segment| plain(segment) && stars(segment)) && !pattern.ends_with("**")
    }

    fn name_is_sound(pattern: &str) -> bool {
        let core = pattern.strip_prefix('*').unwrap_or(pattern);
        let core = core.strip_suffix('*').unwrap_or(core);
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !core.is_empty() && core.bytes().all(letter)
    }

    #[test]
    fn every_table_is_sorted_unique_and_has_reasons() {
        for table in tables() {
            assert_eq!(faults(&table), Vec::<String>::new(), "table {}", table.name);
        }
    }

    /// The other name of a path that a variable may move.
    fn twin(pattern: &str) -> Option<String> {
        let moved = |from: &str, to: &str| {
            let rest = pattern.strip_prefix(from)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        };
        MOVABLE.iter().find_map(|(variable, place)| moved(variable, place).or_else(|| moved(place, variable)))
    }

    #[test]
    fn what_a_variable_may_move_is_listed_under_both_names() {
        let mut seen = 0;
        for table in tables().iter().filter(|table| table.kind == TableKind::Paths) {
            for row in table.rows {
                let Some(twin) = twin(row.pattern) else { continue };
                assert!(table.rows.iter().any(|row| row.pattern == twin), "{}: no {twin}", table.name);
                seen += 1;
            }
        }
        assert!(seen > 100, "only {seen} rows have another name");
    }

    #[test]
    fn every_path_is_read_by_the_parser_of_policies() {
        for table in tables() {
            let kind = if table.name == "authority sockets" { TemplateKind::Socket } else { TemplateKind::Path };
            for row in table.rows.iter().filter(|_| matches!(table.kind, TableKind::Paths | TableKind::Relative)) {
                let parsed = PathRule::parse(row.pattern, kind);
                assert!(parsed.is_ok(), "{}: {}: {parsed:?}", table.name, row.pattern);
            }
        }
    }

    #[track_caller]
    fn faulty(kind: TableKind, rows: &'static [Row]) {
        assert_ne!(faults(&Table { name: "made up", kind, rows }), Vec::<String>::new(), "{rows:?}");
    }

    #[test]
    fn the_rules_can_fail() {
        faulty(TableKind::Paths, rows! { "~/b" => "why", "~/a" => "why", });
        faulty(TableKind::Paths, rows! { "~/a" => "why", "~/a" => "why", });
        faulty(TableKind::Paths, rows! { "~/a" => "", });
        faulty(TableKind::Paths, rows! { "~/a" => "Why.", });
        for rows in [
            rows! { "a" => "relative", },
            rows! { "~/a/" => "trailing slash", },
            rows! { "~/a/**" => "trailing stars", },
            rows! { "~/a**/b" => "stars inside a segment", },
            rows! { "~/a/../b" => "parent", },
            rows! { "$PATH/a" => "variable outside the closed set", },
            rows! { "$XDG_RUNTIME_DIR/a" => "a variable of the sockets table only", },
        ] {
            faulty(TableKind::Paths, rows);
        }
        faulty(TableKind::Relative, rows! { "/config" => "absolute", });
        faulty(TableKind::Variables, rows! { "A*B" => "star inside", });
        faulty(TableKind::Variables, rows! { "*" => "everything", });
    }

    #[test]
    fn packs_read_nothing_sensitive() {
        for pack in packs::PACKS {
            for read in pack.reads {
                let hidden = sensitive::SENSITIVE.iter().find(|row| {
                    read.pattern.strip_prefix(row.pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
                assert!(hidden.is_none(), "{}: {} is hidden by {hidden:?}", pack.name, read.pattern);
            }
        }
    }
}
