//! What is only looked for, while it is learned what a command needs.
//!
//! Nothing is decided here: the kernel goes on with such a call whatever is found, and what may be read the view decides. So it
//! does no harm that the caller could change its words meanwhile: it would tell something else of itself than it does.

use ringfence_surface::{AbsPath, Access, Because, Effect, Role};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::request::{AT_SYMLINK_NOFOLLOW, Named};
use super::resolve::{Last, is_of_processes, place_of};
use super::work::{Reply, Work};

/// The kernel's own bound.
const MOST_LINKS: u32 = 40;
/// `AF_UNIX`, and the longest address of its kind.
const UNIX: u16 = 1;
const LONGEST_ADDRESS: u32 = 110;

impl Work<'_, '_> {
    /// Something is read, run, entered or looked for.
    pub(super) fn look(&self, file: Named, flags: u32) -> Reply {
        // Calls about a descriptor alone are about something that is open.
        if file.path != 0
            && let Ok(path) = self.caller.string(file.path)
            && !path.is_empty()
        {
            self.look_at(file, &path, flags);
        }
        Reply::Continue
    }

    fn look_at(&self, file: Named, path: &[u8], flags: u32) {
        let last = if flags & AT_SYMLINK_NOFOLLOW != 0 { Last::Itself } else { Last::Followed };
        let found = self.resolver.from(file.dir, path).and_then(|from| {
            let place = self.resolver.place(&from, path)?;
            self.resolver.target(&from, place, last)
        });
        let (judge, call) = self.teller();
        match found.map(|target| target.path) {
            Ok(Some(path)) => {
                let verdict = self.surface().decide(&path, Access::Read);
                match verdict.because {
                    // Shown only while it is learned: it counts that it was used.
                    Because::Rule(rule) if rule.effect == Effect::Read(Role::Reference) => {
                        judge.looked(&self.caller, call, &path, (Access::Read, &verdict), None);
                    }
                    // A mask stands there.
                    Because::Rule(rule) if matches!(rule.effect, Effect::Deny | Effect::Escape) => {
                        judge.looked(&self.caller, call, &path, (Access::Read, &verdict), Some(Errno::ACCESS));
                    }
                    _ => {}
                }
            }
            Ok(None) => {}
            Err(errno) => {
                let Some(path) = self.meant(file.dir, path) else { return };
                let verdict = self.surface().decide(&path, Access::Read);
                if !verdict.is_allowed() {
                    judge.looked(&self.caller, call, &path, (Access::Read, &verdict), Some(errno));
                }
            }
        }
    }

    /// Something was to be changed or made at a place that is not in the view.
    pub(super) fn missed_a_place(&self, file: Named) {
        let Some(path) = self.path(file).ok().and_then(|path| self.meant(file.dir, &path)) else { return };
        let verdict = self.surface().decide(&path, Access::Write);
        if !verdict.is_allowed() {
            let (judge, call) = self.teller();
            judge.looked(&self.caller, call, &path, (Access::Write, &verdict), Some(Errno::NOENT));
        }
    }

    /// A socket of the host that is not in the view.
    pub(super) fn look_for_socket(&self, address: u64, length: u32) {
        let mut bytes = vec![0; usize::try_from(length.min(LONGEST_ADDRESS)).unwrap_or_default()];
        if self.caller.bytes(address, &mut bytes).is_err() {
            return;
        }
        let Some((family, name)) = bytes.split_first_chunk::<2>() else { return };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        // Names that begin with a NUL are no files.
        if u16::from_ne_bytes(*family) != UNIX || name.is_empty() {
            return;
        }
        if let Some(path) = self.meant(super::caller::AT_FDCWD, name)
            && rustix::fs::open(path.as_bytes(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).is_err()
        {
            let verdict = self.surface().decide(&path, Access::Read);
            if !verdict.is_allowed() {
                let (judge, call) = self.teller();
                judge.looked(&self.caller, call, &path, (Access::Read, &verdict), Some(Errno::NOENT));
            }
        }
    }

    /// Where a path leads to of which not everything is there: links are followed as far as they are.
    fn meant(&self, dir: i32, path: &[u8]) -> Option<AbsPath> {
        let mut here = if path.first() == Some(&b'/') {
            AbsPath::root()
        } else {
            let dir = self.caller.directory(dir).ok()?;
            AbsPath::lexical(&place_of(std::os::fd::AsFd::as_fd(&dir)).ok()?).ok()?
        };
        let names = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec).collect()
        };
        let (mut left, mut links) = (names(path), 0);
        while let Some(name) = left.pop() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    here = here.parent().unwrap_or_else(AbsPath::root);
                    continue;
                }
                _ => {}
            }
            let next = here.child(&name);
            // Links in there mean whoever looks, and that would be us.
            if is_of_processes(next.as_bytes()) {
                return None;
            }
            match rustix::fs::readlink(next.as_bytes(), Vec::new()) {
                Ok(text) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    let text = text.into_bytes();
                    if text.first() == Some(&b'/') {
                        here = AbsPath::root();
                    }
                    left.extend(names(&text));
                }
                Err(_) => here = next,
            }
        }
        Some(here)
    }
}
