//! The mounts as bubblewrap's arguments.

use std::collections::BTreeSet;

use ringfence_surface::AbsPath;

use crate::mounts::{Found, MountAccess, MountOp};
use crate::private::{PrivateKind, PrivatePlace};

/// What bubblewrap takes at most: it counts every word of its arguments.
const MOST_WORDS: usize = 9_000;

/// Files of the session that the mounts are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Its directory.
    pub session: AbsPath,
    /// The session's own temporary directory.
    pub tmp: AbsPath,
    /// An empty file that nobody may read.
    pub mask_file: AbsPath,
    /// An empty directory that nobody may read.
    pub mask_directory: AbsPath,
}

/// Why bubblewrap cannot make these mounts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BwrapError {
    /// More than it takes.
    #[error("bubblewrap takes at most {MOST_WORDS} words and this fence needs {words}")]
    TooLong {
        /// How many it would be.
        words: usize,
    },
}

/// Who starts bubblewrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// An ordinary user, in a user namespace.
    User,
    /// Root, for somebody else: the command inside becomes that user itself, which takes two rights and one to give up the rest.
    Root,
}

/// The arguments that make the view, without those of the command.
///
/// # Errors
/// When there are more than bubblewrap takes.
pub fn bwrap(mounts: &[MountOp], places: &Places, starter: Starter) -> Result<Vec<Vec<u8>>, BwrapError> {
    let mut words = Words(Vec::new());
    let options: &[&str] = match starter {
        Starter::User => &["--unshare-all", "--cap-drop", "ALL"],
        Starter::Root => &[
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--cap-drop",
            "ALL",
            "--cap-add",
            "CAP_SETUID",
            "--cap-add",
            "CAP_SETGID",
            "--cap-add",
            "CAP_SETPCAP",
        ],
    };
    words.0.extend(options.iter().chain(&["--die-with-parent"]).map(|word| word.as_bytes().to_vec()));
    let mut made = BTreeSet::new();
    for (at, op) in mounts.iter().enumerate() {
        if starter == Starter::Root {
            words.parents(op, &mounts[..at], &mut made);
        }
        words.mount(op, places);
    }
    for op in mounts {
        if let MountOp::Hollow { path } | MountOp::Rebuilt { path } = op {
            words.add("--remount-ro", &[path.as_bytes()]);
        }
    }
    words.add("--remount-ro", &[b"/"]);
    // Whoever becomes the command goes to its directory; root without its rights might not get there.
    words.add("--chdir", &[b"/"]);
    match words.0.len() {
        count if count > MOST_WORDS => Err(BwrapError::TooLong { words: count }),
        _ => Ok(words.0),
    }
}

struct Words(Vec<Vec<u8>>);

impl Words {
    fn add(&mut self, option: &str, operands: &[&[u8]]) {
        self.0.push(option.as_bytes().to_vec());
        self.0.extend(operands.iter().map(|operand| operand.to_vec()));
    }

    fn bind(&mut self, option: &str, source: &AbsPath, path: &AbsPath) {
        self.add(option, &[source.as_bytes(), path.as_bytes()]);
    }

    /// Bubblewrap makes the directories above a mount for whoever starts it alone; here another goes through them.
    fn parents(&mut self, op: &MountOp, before: &[MountOp], made: &mut BTreeSet<AbsPath>) {
        if !matches!(op, MountOp::Bind { .. } | MountOp::Private { .. } | MountOp::Link { .. } | MountOp::Own { .. }) {
            return;
        }
        let is_shown =
            |dir: &AbsPath| before.iter().any(|op| matches!(op, MountOp::Bind { path, .. } if dir.is_within(path)));
        let mut above: Vec<AbsPath> = op.destination().ancestors().skip(1).filter(|dir| !dir.is_root()).collect();
        above.reverse();
        let is_private = |dir: &AbsPath| {
            before
                .iter()
                .any(|op| matches!(op, MountOp::Private { .. } | MountOp::Rebuilt { .. } if op.destination() == dir))
        };
        for dir in above {
            if is_private(&dir) {
                continue;
            }
            if !is_shown(&dir) && made.insert(dir.clone()) {
                self.add("--perms", &[b"0755", b"--dir", dir.as_bytes()]);
            }
        }
    }

    fn mount(&mut self, op: &MountOp, places: &Places) {
        match op {
            MountOp::Bind { path, access: MountAccess::ReadOnly, .. } | MountOp::Freeze { path } => {
                self.bind("--ro-bind", path, path);
            }
            MountOp::Bind { path, access: MountAccess::ReadWrite, .. }
            | MountOp::Pin { path }
            | MountOp::Cover { path } => self.bind("--bind", path, path),
            MountOp::Link { path, target } => self.add("--symlink", &[target, path.as_bytes()]),
            MountOp::Mask { path, kind: Found::File } => self.bind("--ro-bind", &places.mask_file, path),
            MountOp::Mask { path, kind: Found::Directory } => self.bind("--ro-bind", &places.mask_directory, path),
            MountOp::Program { path, source } => self.bind("--ro-bind", source, path),
            MountOp::Own { path, name } => self.bind("--ro-bind", &places.session.join(name), path),
            MountOp::Rebuilt { path } => self.add("--perms", &[b"0755", b"--tmpfs", path.as_bytes()]),
            MountOp::Hollow { path } => self.add("--perms", &[b"0111", b"--tmpfs", path.as_bytes()]),
            MountOp::Private { place, .. } => self.private(place, places),
        }
    }

    /// Of what is private in `/dev`, bubblewrap makes all at once; the first of them stands for the rest.
    fn private(&mut self, place: &PrivatePlace, places: &Places) {
        let has_devices = self.0.iter().any(|word| word == b"--dev");
        let path = place.path().as_bytes();
        match place.kind() {
            PrivateKind::Processes => self.add("--proc", &[path]),
            PrivateKind::Temporary => self.bind("--bind", &places.tmp, place.path()),
            // Bubblewrap makes it for whoever starts it alone, who may be another than whoever works inside.
            PrivateKind::SharedMemory if has_devices => self.add("--perms", &[b"1777", b"--tmpfs", path]),
            PrivateKind::Devices
            | PrivateKind::SharedMemory
            | PrivateKind::Terminals
            | PrivateKind::Multiplexer
            | PrivateKind::CharacterDevice => {
                if !has_devices {
                    self.add("--dev", &[b"/dev"]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfence_surface::Role;

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    fn private_at(path: &str) -> MountOp {
        MountOp::Private { place: PrivatePlace::at(&abs(path)).unwrap(), access: MountAccess::ReadWrite }
    }

    fn places() -> Places {
        Places { session: abs("/s"), tmp: abs("/s/tmp"), mask_file: abs("/s/file"), mask_directory: abs("/s/dir") }
    }

    #[test]
    fn each_mount_in_its_order() {
        let private = private_at;
        let bind = |path: &str, access| MountOp::Bind { path: abs(path), access, role: Role::Write };
        let mounts = [
            MountOp::Link { path: abs("/bin"), target: b"usr/bin".to_vec() },
            private("/dev/null"),
            private("/dev/shm"),
            private("/proc"),
            private("/tmp"),
            bind("/usr", MountAccess::ReadOnly),
            bind("/w", MountAccess::ReadWrite),
            MountOp::Pin { path: abs("/w/.git") },
            MountOp::Cover { path: abs("/w") },
            MountOp::Mask { path: abs("/w/.env"), kind: Found::File },
            MountOp::Mask { path: abs("/w/keys"), kind: Found::Directory },
            MountOp::Freeze { path: abs("/w/.git/hooks") },
        ];
        let words = bwrap(&mounts, &places(), Starter::User).unwrap();
        let text: Vec<&str> = words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert_eq!(
            text.join(" "),
            "--unshare-all --cap-drop ALL --die-with-parent --symlink usr/bin /bin --dev /dev --perms 1777 --tmpfs /dev/shm --proc /proc \
             --bind /s/tmp /tmp --ro-bind /usr /usr --bind /w /w --bind /w/.git /w/.git --bind /w /w \
             --ro-bind /s/file /w/.env --ro-bind /s/dir /w/keys --ro-bind /w/.git/hooks /w/.git/hooks \
             --remount-ro / --chdir /"
        );
    }

    #[test]
    fn root_opens_the_way_for_another() {
        let mounts = [
            private_at("/tmp"),
            MountOp::Bind { path: abs("/tmp/a/w"), access: MountAccess::ReadWrite, role: Role::Write },
            MountOp::Bind { path: abs("/tmp/a/w/x/y"), access: MountAccess::ReadOnly, role: Role::Read },
        ];
        let words = bwrap(&mounts, &places(), Starter::Root).unwrap();
        let text: Vec<&str> = words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        let text = text.join(" ");
        // `/tmp` is mounted before anything is made in it, and nothing is made in what is the host's own.
        assert!(
            text.contains("--bind /s/tmp /tmp --perms 0755 --dir /tmp/a --bind /tmp/a/w /tmp/a/w --ro-bind"),
            "{text}"
        );
    }

    #[test]
    fn too_many_are_refused() {
        let masks: Vec<MountOp> =
            (0..4_000).map(|n| MountOp::Mask { path: abs(&format!("/w/{n}")), kind: Found::File }).collect();
        assert!(matches!(bwrap(&masks, &places(), Starter::User), Err(BwrapError::TooLong { .. })));
    }
}
