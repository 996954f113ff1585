//! Changes to files that are mounted read-only inside: the broker judges them, and the supervisor puts them in place outside.
//!
//! A protected file has a mount over it, so that nothing inside can change it, the broker included. Where a change is one that git makes
//! during ordinary work (a branch in `.git/config`), the broker sends the content to the supervisor, which judges it again: the broker
//! runs in the agent's namespaces, and is not trusted.

mod lander;
mod versions;
mod wire;

pub(crate) use self::lander::Lander;
pub(crate) use self::versions::{LONGEST_VERSION, is_open_but_for_protection, is_replaceable};
pub(crate) use self::wire::{EntryChange, Landing, NotLanded, Outcome, Repositories, SettingsFile};
