//! The magic links of `/proc`: other names for files of the host, which the text of the link does not tell.
//!
//! `/proc/1/root/etc/shadow` is `/etc/shadow`, `/proc/PID/cwd/..` whatever the process sees there, and `/proc/PID/fd/3` any file
//! that it has open, a deleted one too. The kernel goes there without reading a name, so no rule about names can decide about such
//! a path, and a process without permission to read the link cannot resolve it. These paths are refused as they are; the
//! path that a link leads to is decided by the rules.

use std::sync::LazyLock;

use crate::path::AbsPath;
use crate::pattern::{Anchor, Pattern, Segment};
use crate::source::Source;
use crate::surface::{Effect, Rule, Sense};

/// The links in the directory of a process, or in one of its threads.
const LINKS: [&[u8]; 3] = [b"cwd", b"exe", b"root"];

/// Directories of them.
const DIRECTORIES: [&[u8]; 2] = [b"fd", b"map_files"];

static RULE: LazyLock<Rule> = LazyLock::new(|| Rule {
    effect: Effect::Escape,
    sense: Sense::Rule,
    pattern: Pattern {
        anchor: Anchor::At(AbsPath::root().join("proc")),
        rest: vec![Segment::Any, Segment::Name(b"root".to_vec())],
    },
    text: "/proc/*/{root,cwd,exe,fd/*,map_files/*}".into(),
    source: Source::Table {
        name: "escape",
        reason: "a magic link of the kernel: another name for a file of any process",
    },
    list: 0,
});

/// The rule that refuses a path, if it is a magic link or leads through one.
pub(crate) fn through(path: &AbsPath) -> Option<&'static Rule> {
    let mut names = path.components();
    if names.next() != Some(b"proc") || !is_process(names.next()?) {
        return None;
    }
    let mut name = names.next()?;
    if name == b"task" {
        names.next().filter(|thread| is_number(thread))?;
        name = names.next()?;
    }
    let is_link = LINKS.contains(&name) || DIRECTORIES.contains(&name) && names.next().is_some_and(is_named);
    is_link.then(|| &*RULE)
}

fn is_process(name: &[u8]) -> bool {
    matches!(name, b"self" | b"thread-self") || is_number(name)
}

/// A descriptor is a number and a mapping `7f00-7f01`. The text of a link that leads to no file (`pipe:[1]`) is no name in there.
fn is_named(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: bool) {
        let path = AbsPath::lexical(path.as_bytes()).unwrap();
        assert_eq!(through(&path).is_some(), expected, "{path}");
    }

    #[test]
    fn a18_aliases_of_files_are_found() {
        for process in ["1", "4321", "self", "thread-self", "1/task/1", "self/task/77"] {
            for link in ["root", "cwd", "exe", "fd/3", "map_files/7f00-7f01"] {
                check(&format!("/proc/{process}/{link}"), true);
                check(&format!("/proc/{process}/{link}/etc/shadow"), true);
            }
            for other in ["", "status", "fd", "map_files", "task", "fdinfo/3", "fd/pipe:[12]", "rootx", "environ"] {
                check(&format!("/proc/{process}/{other}"), false);
            }
        }
        for other in ["/proc", "/proc/sys/root", "/proc/cpuinfo", "/x/proc/1/root", "/proc/net/fd/3", "/root", "/"] {
            check(other, false);
        }
    }
}
