//! What each field of a tool's input is, as data: one table for each client.

use ringfence_surface::Access;

/// A tool of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) runs: Runs,
}

/// A field of a tool's input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A path.
    Path(Access),
    /// A directory to look in; left out it is the current one.
    Root,
    /// Names to look for below the root.
    Names,
    /// Several of those.
    NameList,
    /// A line of shell.
    Command,
    /// A patch.
    Patch,
    /// An address.
    Url,
    /// Text with addresses in it.
    Prose,
    /// An address or a path of another program's.
    Uri,
    /// A name below the project's `.claude/worktrees`.
    Worktree,
    /// Whatever the tool makes of it, it is no path: text, numbers, lists of text.
    Plain,
}

/// Does a tool run commands that no hook sees?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// None, or only such as its fields say.
    Nothing,
    /// It may.
    Unseen,
}

/// The rows of a table: a name, `field: kind` for each field.
macro_rules! tools {
    ($($name:literal $(($runs:ident))? { $($field:literal: $kind:expr),* $(,)? })*) => {
        &[$($crate::hook::tools::Tool {
            name: $name,
            fields: &[$($crate::hook::tools::Field { name: $field, kind: $kind }),*],
            runs: tools!(@runs $($runs)?),
        }),*]
    };
    (@runs) => { $crate::hook::tools::Runs::Nothing };
    (@runs $runs:ident) => { $crate::hook::tools::Runs::$runs };
}
pub(crate) use tools;

/// Reading.
pub(crate) const READ: Kind = Kind::Path(Access::Read);
/// Writing.
pub(crate) const WRITE: Kind = Kind::Path(Access::Write);

/// The tool of this name.
pub(crate) fn find(tables: &[&'static [Tool]], name: &str) -> Option<&'static Tool> {
    tables.iter().flat_map(|table| table.iter()).find(|tool| tool.name == name)
}
