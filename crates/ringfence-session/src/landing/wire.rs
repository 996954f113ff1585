//! What the broker asks for, and what the supervisor answers.

use ringfence_surface::AbsPath;
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::bytes::{Reader, Writer};
use crate::git_files::Content;
use crate::git_gains::Unknown;

/// The longest request that is read.
pub(crate) const LONGEST: usize = 64 << 20;

/// A change that the broker cannot make itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Landing {
    /// A file of settings gets other content.
    Settings {
        /// The file.
        path: AbsPath,
        /// `.git/config` or `.gitmodules`.
        kind: SettingsFile,
        /// What it is to hold.
        text: Vec<u8>,
    },
    /// A protected file of a work tree gets a version that its repository had when the session began.
    Version {
        /// The file.
        path: AbsPath,
        /// Its permissions.
        mode: Mode,
        /// What it is to hold.
        text: Vec<u8>,
        /// Where the version may come from.
        repositories: Repositories,
    },
    /// A protected file of a work tree, or a directory, is made or removed while git replaces files.
    Entry {
        /// Which.
        path: AbsPath,
        /// What becomes of it.
        change: EntryChange,
        /// Where the version may come from.
        repositories: Repositories,
    },
    /// Git locks the index for this command. Is there a version that it will need and not get?
    Foresee {
        /// The git directory.
        git_dir: AbsPath,
        /// The command line, each word ended by a NUL.
        command: Vec<u8>,
    },
    /// Changes nothing. Is there nothing on the host at a path at which the session has temporary files of its own?
    Vacant {
        /// Which.
        path: AbsPath,
    },
    /// A directory was moved in which there is a clone with protected files.
    Moved {
        /// Its old path.
        from: AbsPath,
        /// Its new path.
        to: AbsPath,
    },
}

/// Of which repositories versions of protected files may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repositories {
    /// Of those that existed when the session started, as they were then.
    OfTheStart,
    /// And of those that were made inside, at paths that were not in use before.
    AlsoNew,
}

impl Repositories {
    fn number(self) -> u64 {
        u64::from(self == Self::AlsoNew)
    }

    fn of_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::OfTheStart),
            1 => Some(Self::AlsoNew),
            _ => None,
        }
    }
}

/// What becomes of an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryChange {
    /// A file is removed.
    RemoveFile,
    /// An empty directory is removed.
    RemoveDirectory,
    /// A directory is made.
    MakeDirectory,
}

/// Which file of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsFile {
    /// `config` or `config.worktree` of a git directory.
    Repository,
    /// `.gitmodules` of a work tree.
    Modules,
}

impl SettingsFile {
    /// The file of settings that has this content.
    pub(crate) fn of(content: Content) -> Option<Self> {
        match content {
            Content::Settings => Some(Self::Repository),
            Content::Modules => Some(Self::Modules),
            Content::Vetted(_) | Content::Index | Content::GitFile | Content::Version => None,
        }
    }

    pub(crate) fn content(self) -> Content {
        match self {
            Self::Repository => Content::Settings,
            Self::Modules => Content::Modules,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in place.
    Done,
    /// It is not.
    Not(NotLanded),
    /// A system call failed.
    Failed(Errno),
}

/// Why a change is not put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLanded {
    /// The request is not understood.
    Malformed,
    /// The file is not one that the supervisor changes for the broker.
    Path,
    /// The content is not accepted.
    Content,
    /// The version of a file is not one that its repository had.
    Version(Unknown),
    /// What would be replaced is not in the repository, and would be lost.
    Unsaved,
    /// It took so long that the broker no longer waits.
    Late,
}

const SETTINGS: u64 = 1;
const VERSION: u64 = 2;
const ENTRY: u64 = 3;
const MOVED: u64 = 4;
const FORESEE: u64 = 5;
const VACANT: u64 = 6;

impl Landing {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Settings { path, kind, text } => {
                out.number(SETTINGS);
                out.bytes(path.as_bytes());
                out.number(u64::from(*kind == SettingsFile::Modules));
                out.bytes(text);
            }
            Self::Version { path, mode, text, repositories } => {
                out.number(VERSION);
                out.bytes(path.as_bytes());
                out.number(u64::from(mode.as_raw_mode()));
                out.bytes(text);
                out.number(repositories.number());
            }
            Self::Foresee { git_dir, command } => {
                out.number(FORESEE);
                out.bytes(git_dir.as_bytes());
                out.bytes(command);
            }
            Self::Vacant { path } => {
                out.number(VACANT);
                out.bytes(path.as_bytes());
            }
            Self::Moved { from, to } => {
                out.number(MOVED);
                out.bytes(from.as_bytes());
                out.bytes(to.as_bytes());
            }
            Self::Entry { path, change, repositories } => {
                out.number(ENTRY);
                out.bytes(path.as_bytes());
                out.number(match change {
                    EntryChange::RemoveFile => 0,
                    EntryChange::RemoveDirectory => 1,
                    EntryChange::MakeDirectory => 2,
                });
                out.number(repositories.number());
            }
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let request = match input.number()? {
            SETTINGS => {
                let path = AbsPath::lexical(input.bytes()?).ok()?;
                let kind = match input.number()? {
                    0 => SettingsFile::Repository,
                    1 => SettingsFile::Modules,
                    _ => return None,
                };
                Self::Settings { path, kind, text: input.bytes()?.to_vec() }
            }
            VERSION => {
                let path = AbsPath::lexical(input.bytes()?).ok()?;
                let mode = u32::try_from(input.number()?).ok().filter(|mode| *mode <= 0o777)?;
                let (mode, text) = (Mode::from_raw_mode(mode), input.bytes()?.to_vec());
                Self::Version { path, mode, text, repositories: Repositories::of_number(input.number()?)? }
            }
            ENTRY => {
                let path = AbsPath::lexical(input.bytes()?).ok()?;
                let change = match input.number()? {
                    0 => EntryChange::RemoveFile,
                    1 => EntryChange::RemoveDirectory,
                    2 => EntryChange::MakeDirectory,
                    _ => return None,
                };
                Self::Entry { path, change, repositories: Repositories::of_number(input.number()?)? }
            }
            FORESEE => {
                let git_dir = AbsPath::lexical(input.bytes()?).ok()?;
                Self::Foresee { git_dir, command: input.bytes()?.to_vec() }
            }
            VACANT => Self::Vacant { path: AbsPath::lexical(input.bytes()?).ok()? },
            MOVED => {
                let from = AbsPath::lexical(input.bytes()?).ok()?;
                Self::Moved { from, to: AbsPath::lexical(input.bytes()?).ok()? }
            }
            _ => return None,
        };
        input.is_done().then_some(request)
    }
}

const DONE: u64 = 0;
const MALFORMED: u64 = 1;
const PATH: u64 = 2;
const CONTENT: u64 = 3;
const NO_REPOSITORY: u64 = 4;
const ABSENT: u64 = 5;
const BUDGET: u64 = 6;
const DAMAGED: u64 = 7;
const UNSAVED: u64 = 8;
const LATE: u64 = 9;
const USED_PATH: u64 = 10;
const NOT_STORED: u64 = 11;
/// And the number of an error.
const FAILED: u64 = 1 << 16;

impl Outcome {
    pub(crate) fn to_number(&self) -> u64 {
        match self {
            Self::Done => DONE,
            Self::Not(NotLanded::Malformed) => MALFORMED,
            Self::Not(NotLanded::Path) => PATH,
            Self::Not(NotLanded::Content) => CONTENT,
            Self::Not(NotLanded::Version(Unknown::Repository)) => NO_REPOSITORY,
            Self::Not(NotLanded::Version(Unknown::Absent)) => ABSENT,
            Self::Not(NotLanded::Version(Unknown::Budget)) => BUDGET,
            Self::Not(NotLanded::Version(Unknown::Damaged)) => DAMAGED,
            Self::Not(NotLanded::Version(Unknown::UsedPath)) => USED_PATH,
            Self::Not(NotLanded::Version(Unknown::NotStored)) => NOT_STORED,
            Self::Not(NotLanded::Unsaved) => UNSAVED,
            Self::Not(NotLanded::Late) => LATE,
            Self::Failed(errno) => FAILED | u64::from(errno.raw_os_error().unsigned_abs()),
        }
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        Some(match number {
            DONE => Self::Done,
            MALFORMED => Self::Not(NotLanded::Malformed),
            PATH => Self::Not(NotLanded::Path),
            CONTENT => Self::Not(NotLanded::Content),
            NO_REPOSITORY => Self::Not(NotLanded::Version(Unknown::Repository)),
            ABSENT => Self::Not(NotLanded::Version(Unknown::Absent)),
            BUDGET => Self::Not(NotLanded::Version(Unknown::Budget)),
            DAMAGED => Self::Not(NotLanded::Version(Unknown::Damaged)),
            USED_PATH => Self::Not(NotLanded::Version(Unknown::UsedPath)),
            NOT_STORED => Self::Not(NotLanded::Version(Unknown::NotStored)),
            UNSAVED => Self::Not(NotLanded::Unsaved),
            LATE => Self::Not(NotLanded::Late),
            _ if number & FAILED != 0 => {
                let errno = i32::try_from(number & !FAILED).ok().filter(|errno| (1..4096).contains(errno))?;
                Self::Failed(Errno::from_raw_os_error(errno))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_outcomes_arrive() {
        let path = AbsPath::root().join("p/.git/config");
        for kind in [SettingsFile::Repository, SettingsFile::Modules] {
            let request = Landing::Settings { path: path.clone(), kind, text: b"[a]\n\tb = c\n".to_vec() };
            let bytes = request.encode();
            assert_eq!(Landing::decode(&bytes), Some(request));
            (0..bytes.len()).for_each(|length| assert_eq!(Landing::decode(&bytes[..length]), None));
        }
        let foresee = Landing::Foresee { git_dir: path.clone(), command: b"git\0switch\0".to_vec() };
        let vacant = Landing::Vacant { path: path.clone() };
        let mut requests =
            vec![foresee, vacant, Landing::Moved { from: path.clone(), to: AbsPath::root().join("p/x") }];
        for repositories in [Repositories::OfTheStart, Repositories::AlsoNew] {
            let (path, mode, text) = (path.clone(), Mode::from_raw_mode(0o755), b"a".to_vec());
            requests.push(Landing::Version { path: path.clone(), mode, text, repositories });
            for change in [EntryChange::RemoveFile, EntryChange::RemoveDirectory, EntryChange::MakeDirectory] {
                requests.push(Landing::Entry { path: path.clone(), change, repositories });
            }
        }
        requests.into_iter().for_each(|request| assert_eq!(Landing::decode(&request.encode()), Some(request)));
        for outcome in [
            Outcome::Done,
            Outcome::Not(NotLanded::Malformed),
            Outcome::Not(NotLanded::Path),
            Outcome::Not(NotLanded::Content),
            Outcome::Not(NotLanded::Version(Unknown::UsedPath)),
            Outcome::Not(NotLanded::Version(Unknown::NotStored)),
            Outcome::Failed(Errno::ACCESS),
        ] {
            assert_eq!(Outcome::of_number(outcome.to_number()), Some(outcome));
        }
        assert_eq!((Outcome::of_number(99), Outcome::of_number(FAILED)), (None, None));
    }
}
