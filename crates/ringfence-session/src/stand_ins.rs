//! What stands in the place of devices in a root that an ordinary user made.
//!
//! Such a user can make no devices. So random bytes come from a pipe, which whoever waits for the payload fills; and `/dev/null` is a
//! file, which they empty whenever something was written to it. That is done a moment later: whoever reads in between sees what was
//! written. Roots that are made with the right to make devices have none of this.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, inotify};

/// Where the stand-ins of a root are, seen from outside.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) pipes: Vec<CString>,
    pub(crate) null: Option<CString>,
}

/// Those that are served.
pub(crate) struct StandIns {
    pipes: [Option<OwnedFd>; 2],
    /// Tells when it was written, and the file itself.
    null: Option<(OwnedFd, OwnedFd)>,
}

impl StandIns {
    pub(crate) const NONE: Self = Self { pipes: [const { None }; 2], null: None };

    /// Opens them. Whoever reads from a pipe that could not be opened waits until their time is up. Allocates nothing.
    pub(crate) fn open(places: &Places) -> Self {
        let careful = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut found = Self::NONE;
        for (pipe, path) in found.pipes.iter_mut().zip(&places.pipes) {
            // For both, so that it can be opened before anybody reads.
            *pipe = rustix::fs::open(path.as_c_str(), OFlags::RDWR | careful, Mode::empty()).ok();
        }
        if let Some(path) = &places.null {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            let watched = || {
                let watch = inotify::init(flags)?;
                inotify::add_watch(&watch, path.as_c_str(), inotify::WatchFlags::MODIFY)?;
                Ok::<_, rustix::io::Errno>((
                    watch,
                    rustix::fs::open(path.as_c_str(), OFlags::WRONLY | careful, Mode::empty())?,
                ))
            };
            found.null = watched().ok();
        }
        found
    }

    /// What is to be waited for; `nothing` where a place is empty. Allocates nothing.
    pub(crate) fn wanted<'f>(&'f self, nothing: &'f OwnedFd) -> [(&'f OwnedFd, PollFlags); 3] {
        let or_nothing = |fd: Option<&'f OwnedFd>, wanted| fd.map_or((nothing, PollFlags::empty()), |fd| (fd, wanted));
        let [one, two] = &self.pipes;
        let null = self.null.as_ref().map(|(watch, _)| watch);
        [
            or_nothing(one.as_ref(), PollFlags::OUT),
            or_nothing(two.as_ref(), PollFlags::OUT),
            or_nothing(null, PollFlags::IN),
        ]
    }

    /// Does what is due. Allocates nothing.
    pub(crate) fn serve(&self, due: [PollFlags; 3]) {
        for (pipe, due) in self.pipes.iter().zip(due) {
            if let Some(pipe) = pipe.as_ref().filter(|_| due.contains(PollFlags::OUT)) {
                fill(pipe);
            }
        }
        if let Some((watch, file)) = self.null.as_ref().filter(|_| due[2].contains(PollFlags::IN)) {
            let mut events = [0_u8; 4096];
            while rustix::io::read(watch, &mut events).is_ok_and(|got| got > 0) {}
            // To empty what is empty would be told as a change, too.
            if rustix::fs::fstat(file).is_ok_and(|found| found.st_size > 0) {
                let _ = rustix::fs::ftruncate(file, 0);
            }
        }
    }
}

/// Fills a pipe with random bytes until it takes no more. Allocates nothing.
fn fill(pipe: &OwnedFd) {
    let mut bytes = [0_u8; 256];
    while rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_ok_and(|got| got == bytes.len())
        && rustix::io::write(pipe, &bytes).is_ok()
    {}
}
