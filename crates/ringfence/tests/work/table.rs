//! What of the work is done in a root, and what of it does not work there: every case, the classes of tools that it needs, and
//! each action that a root cannot carry, with the reason.
//!
//! The table is held to: what it does not list must work, what it lists must not, and the reason is looked at inside. A case that
//! is not in it cannot be written, since whoever runs one names its row.

use crate::desk::{Desk, Who, each_in_a_root, is_root};
use crate::lacks::{Lack, Place, Why};
use crate::rust::with_toolchain;
use crate::session::on_another_disk;

/// A root is some hundred files: what depends on who starts it is shown by some, the others take turns.
const BY_ROOT: &[Who] = &[Who::RootForThem];
const BY_THEM: &[Who] = &[Who::Ordinary];

pub(crate) const SWAP: Place = Place { who: BY_ROOT, ..Place::with("shell") };
pub(crate) const EDITING: Place = Place { who: BY_THEM, ..Place::with("shell") };
pub(crate) const JOBS: Place = Place { who: BY_THEM, ..Place::with("shell") };
// Its `/dev/tty` takes a device.
pub(crate) const PROMPT: Place = Place { who: BY_ROOT, ..Place::with("python,shell") };

pub(crate) const DAY: Place = Place::with("git,shell");
pub(crate) const HOOKS: Place = Place {
    who: BY_ROOT,
    lacks: &[
        Lack("a hook cannot be planted", Why::NoProtection),
        Lack("hooks cannot be moved away", Why::NoProtection),
        Lack("a setting cannot be made", Why::NoProtection),
        Lack("the file of settings cannot be replaced", Why::NoProtection),
        Lack("attributes cannot be changed", Why::NoProtection),
        Lack("the repository cannot be moved away", Why::NoProtection),
        Lack("a remote that no rule lists cannot be added, and it is said", Why::NoProtection),
    ],
    ..Place::with("git,shell")
};
pub(crate) const WORK_TREE: Place = Place {
    who: BY_THEM,
    below: "side",
    lacks: &[
        Lack("the pointer cannot be changed", Why::NoProtection),
        Lack("the repository's settings cannot be changed", Why::NoProtection),
        Lack("other files of the repository's work tree are not there", Why::NamesAreSeen),
    ],
    ..Place::with("git,shell")
};
pub(crate) const BEGUN: Place = Place { who: BY_ROOT, ..Place::with("git,shell") };
pub(crate) const DOTFILES: Place = Place {
    who: BY_THEM,
    lacks: &[Lack("what the user's settings are a link to cannot be written", Why::NoProtection)],
    ..Place::with("git,shell")
};
pub(crate) const SETTINGS: Place = Place { who: BY_ROOT, ..Place::with("git,shell") };

pub(crate) const GO: Place = Place { who: BY_THEM, ..Place::with("go,shell") };
pub(crate) const NODE: Place = Place {
    who: BY_THEM,
    lacks: &[Lack("a server answers its own client", Why::NoNetwork)],
    ..Place::with("node,shell")
};
pub(crate) const PYTHON: Place = Place { who: BY_ROOT, ..Place::with("python,shell") };
pub(crate) const RUST: Place = Place {
    who: BY_ROOT,
    before: with_toolchain,
    lacks: &[Lack("rustup's proxies find the toolchain", Why::NoProgram("rustup"))],
    ..Place::with("rust,shell")
};
pub(crate) const BY_HASH: Place = Place { who: BY_THEM, ..Place::with("shell") };

pub(crate) const PROCESSES: Place = Place {
    who: BY_ROOT,
    lacks: &[
        Lack("a server on loopback answers a client", Why::NoNetwork),
        Lack("localhost is a name, by both kinds of address", Why::NoNetwork),
        Lack("every address can be listened on", Why::NoNetwork),
        Lack("datagrams arrive", Why::NoNetwork),
        Lack("a socket in the project and one in the home connect", Why::NoNetwork),
        Lack("asynchronous programs listen", Why::NoNetwork),
        Lack("processes are listed", Why::NoProc),
    ],
    ..Place::with("python,shell")
};

pub(crate) const SURROUNDINGS: Place = Place {
    who: BY_THEM,
    lacks: &[
        Lack("temporary files are where they usually are", Why::OwnTemporaries),
        Lack("devices are there", Why::NoDevice),
        Lack("what is open has a name", Why::NoProc),
        Lack("the machine is described", Why::NoProc),
    ],
    ..Place::with("git,python,shell")
};
pub(crate) const VARIABLE: Place = Place { who: BY_THEM, ..Place::with("shell") };
pub(crate) const ELSEWHERE: Place = Place { who: BY_ROOT, before: on_another_disk, ..Place::with("git,shell") };
pub(crate) const PLAIN: Place = Place { who: BY_THEM, ..Place::with("shell") };

pub(crate) const SMALL_TOOLS: Place = Place {
    lacks: &[Lack("processes stand for files", Why::NoProc), Lack("a traced program runs", Why::NoProgram("strace"))],
    ..Place::with("c,shell")
};

/// The table is held to: each wrong row is noticed.
#[test]
fn a_wrong_row_is_noticed() {
    const RIGHT: &[Lack] = &[Lack("a pipe has a name", Why::NoProc)];
    const WORKS: &[Lack] = &[RIGHT[0], Lack("nothing is done", Why::NoProc)];
    const OTHERWISE: &[Lack] = &[Lack("a pipe has a name", Why::NoProgram("cat"))];
    const UNTRIED: &[Lack] = &[RIGHT[0], Lack("something else is done", Why::NoProc)];
    for (lacks, expected) in [
        (RIGHT, None),
        (&[], Some("a pipe has a name\n")),
        (WORKS, Some("and works: nothing is done\n")),
        (OTHERWISE, Some("it is not for NoProgram(\"cat\"): a pipe has a name\n")),
        (UNTRIED, Some("nowhere tried: [\"something else is done\"]")),
    ] {
        let place = Place { who: BY_ROOT, lacks, ..Place::with("shell") };
        let case = |desk: Desk| desk.works(&[("a pipe has a name", "cat <(true)"), ("nothing is done", "true")]);
        let ended = std::panic::catch_unwind(|| each_in_a_root(&place, case));
        let said = ended.err().map(|said| said.downcast_ref::<String>().cloned().unwrap_or_default());
        match (&said, expected) {
            (None, None) => {}
            (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
            _ if is_root() => panic!("{said:?}, where {expected:?} was expected"),
            _ => {}
        }
    }
}
