//! Opens that only read, in a session that is to tell which of them the fence stops.
//!
//! Nothing is decided here: the mounts hold what may not be read, and the kernel goes on with the call whatever is found out. Its
//! flags are numbers, so that it stays one that only reads. What a path leads to may change meanwhile; then what is told is
//! wrong, and nothing else.

use ringfence_surface::{AbsPath, Access};
use rustix::fs::{Access as Right, AtFlags};
use rustix::io::Errno;

use super::judge::Ruling;
use super::request::Named;
use super::resolve::{Last, place_of};
use super::work::{Reply, Work};

/// Without any of these an open changes nothing: writing, creating, emptying, a file without a name.
const ANY_CHANGE: u32 = 0o3 | super::request::O_CREAT | super::request::O_TRUNC | 0o20_000_000;

/// Does an open with these flags only read? Such a call comes here only where reads are to be told.
pub(super) fn only_reads(flags: u32) -> bool {
    flags & ANY_CHANGE == 0
}

impl Work<'_, '_> {
    /// Tells whether the fence stops it, and lets the kernel go on.
    pub(super) fn observe(&mut self, file: Named) -> Reply {
        if let Some((path, errno)) = self.unreadable(file)
            && let Ruling::Refused(verdict) = self.judge(&path, Access::Read)
        {
            self.tell_refused(&path, (Access::Read, &verdict), errno);
        }
        Reply::Continue
    }

    /// Where a path leads, and what the kernel will say, if that is no success.
    fn unreadable(&self, file: Named) -> Option<(AbsPath, Errno)> {
        let text = self.path(file).ok()?;
        let from = self.resolver.from(file.dir, &text).ok()?;
        let found =
            self.resolver.place(&from, &text).and_then(|place| self.resolver.target(&from, place, Last::Followed));
        match found {
            Ok(target) => {
                let held = target.by_descriptor();
                let may = rustix::fs::accessat(rustix::fs::CWD, held.as_c_str(), Right::READ_OK, AtFlags::empty());
                Some((target.path?, may.err()?))
            }
            // What is not in the view has no directory that could be held: its path is as it is spelled.
            Err(errno @ (Errno::NOENT | Errno::ACCESS)) => {
                let at = if text.first() == Some(&b'/') {
                    Vec::new()
                } else {
                    place_of(std::os::fd::AsFd::as_fd(&self.caller.directory(file.dir).ok()?)).ok()?
                };
                let spelled = [at.as_slice(), b"/", text.as_slice()].concat();
                Some((AbsPath::lexical(&spelled).ok()?, errno))
            }
            Err(_) => None,
        }
    }
}
