//! What a repository gained, in words.

use std::fmt;

use ringfence_surface::{AbsPath, Shown, Word};

/// Paths of one line; the rest is counted.
const FEW: usize = 8;

/// Something that a repository gained in a session, and that the user's git would act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gain {
    /// The top of the work tree, or the git directory.
    pub repository: AbsPath,
    /// What.
    pub kind: GainKind,
}

/// What a repository gained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GainKind {
    /// Paths that the rules protect or deny, each with where it is: a ref, or the index.
    Protected(Vec<(Vec<u8>, String)>),
    /// Submodules.
    Gitlinks(Vec<(Vec<u8>, String)>),
    /// Symbolic links in the place of directories in which something is protected.
    Links(Vec<(Vec<u8>, String)>),
    /// Files that are read from a commit because the work tree has none.
    OnlyCommitted(Vec<(Vec<u8>, String)>),
    /// An operation that was begun and not finished.
    Unfinished(Operation),
    /// It was made in the session, and has files that the rules protect.
    Cloned {
        /// Which, from the top of its work tree.
        files: Vec<Vec<u8>>,
        /// How many were not remembered, of all new repositories.
        left_out: usize,
    },
    /// What git takes for a repository was made or changed, and has files that the broker refuses, each with why.
    Planted(Vec<(Vec<u8>, String)>),
    /// A file of git, which is named as the repository, leads elsewhere than at the start.
    Redirected {
        /// A new link on the way.
        link: Option<AbsPath>,
        /// Where it leads.
        end: AbsPath,
    },
    /// Something that could not be compared, and why.
    Unknown(String),
}

/// An operation of git that the user would continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `git am`.
    Am,
    /// `git bisect`.
    Bisect,
    /// `git cherry-pick`.
    CherryPick,
    /// `git merge`.
    Merge,
    /// `git rebase`.
    Rebase,
    /// `git revert`.
    Revert,
    /// A list of commits to pick or revert.
    Sequencer,
}

impl Operation {
    pub(super) const ALL: &[Self] =
        &[Self::Am, Self::Bisect, Self::CherryPick, Self::Merge, Self::Rebase, Self::Revert, Self::Sequencer];

    /// What is in the git directory as long as it is unfinished.
    pub(super) fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Am => &["rebase-apply/applying"],
            Self::Bisect => &["BISECT_START", "BISECT_LOG"],
            Self::CherryPick => &["CHERRY_PICK_HEAD"],
            Self::Merge => &["MERGE_HEAD"],
            Self::Rebase => &["rebase-merge", "rebase-apply"],
            Self::Revert => &["REVERT_HEAD"],
            Self::Sequencer => &["sequencer"],
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Am => ("an am", "am --abort"),
            Self::Bisect => ("a bisection", "bisect reset"),
            Self::CherryPick => ("a cherry-pick", "cherry-pick --abort"),
            Self::Merge => ("a merge", "merge --abort"),
            Self::Rebase => ("a rebase", "rebase --abort"),
            Self::Revert => ("a revert", "revert --abort"),
            Self::Sequencer => ("a list of commits to pick or revert", "cherry-pick --quit"),
        }
    }
}

impl GainKind {
    pub(super) fn paths(&self) -> &[(Vec<u8>, String)] {
        match self {
            Self::Protected(paths)
            | Self::Gitlinks(paths)
            | Self::Links(paths)
            | Self::OnlyCommitted(paths)
            | Self::Planted(paths) => paths,
            Self::Unfinished(_) | Self::Redirected { .. } | Self::Cloned { .. } | Self::Unknown(_) => &[],
        }
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repository = &self.repository;
        match &self.kind {
            GainKind::Protected(_) => write!(f, "commits or the index of {repository} change what the rules protect:")?,
            GainKind::Gitlinks(_) => write!(f, "commits or the index of {repository} have new submodules:")?,
            GainKind::Links(_) => {
                write!(
                    f,
                    "commits or the index of {repository} have links in the place of directories with protected files:"
                )?;
            }
            GainKind::OnlyCommitted(_) => {
                write!(
                    f,
                    "git reads these files from commits or the index of {repository}, and the work tree has none:"
                )?;
            }
            GainKind::Unfinished(operation) => {
                let ((what, abort), place) = (operation.words(), Word(repository.as_bytes()));
                return write!(
                    f,
                    "{what} was begun in {repository} and is not finished; `git -C {place} {abort}` ends it without running its steps"
                );
            }
            GainKind::Cloned { files, left_out } => {
                write!(f, "{repository} was cloned or made in this session, and has files that the rules protect:")?;
                for (number, file) in files.iter().take(FEW).enumerate() {
                    write!(f, "{} {}", if number == 0 { "" } else { "," }, shortened(file))?;
                }
                let more = files.len().saturating_sub(FEW) + left_out;
                if more > 0 {
                    write!(f, " and {more} more")?;
                }
                return f.write_str("; look at them before you open the directory in an editor, or run anything in it");
            }
            GainKind::Redirected { link: Some(link), end } => {
                let place = Word(link.as_bytes());
                return write!(
                    f,
                    "a git file of {repository} now leads to {end} through the symbolic link {link}, which it did not when the session started; `rm {place}` removes the link"
                );
            }
            GainKind::Redirected { link: None, end } => {
                return write!(
                    f,
                    "a git file of {repository} now leads to {end}, which it did not when the session started; check it before you run git there"
                );
            }
            GainKind::Planted(_) => {
                write!(f, "{repository} has git files, made or changed in this session, that the broker refuses:")?;
            }
            GainKind::Unknown(why) => return write!(f, "what {repository} gained is not fully known: {why}"),
        }
        let paths = self.kind.paths();
        for (number, (path, place)) in paths.iter().take(FEW).enumerate() {
            write!(f, "{} {} ({place})", if number == 0 { "" } else { "," }, shortened(path))?;
        }
        if paths.len() > FEW {
            write!(f, " and {} more", paths.len() - FEW)?;
        }
        f.write_str(match self.kind {
            GainKind::Planted(_) => "; look at them before you run git there, or in a directory above",
            _ => "; look at them before you check out or merge",
        })
    }
}

/// A long path is cut: an agent chooses it.
fn shortened(path: &[u8]) -> String {
    const MOST: usize = 120;
    if path.len() <= MOST { Shown(path).to_string() } else { format!("{}...", Shown(&path[..MOST])) }
}
