//! The view as bubblewrap makes it: real bubblewrap, the same mounts, its arguments in a file of their own.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use ringfence_plan::{BwrapError, MountOp, Places, Starter, bwrap};
use ringfence_surface::AbsPath;
use ringfence_sys::process::{self, Program, Words};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom};

use crate::inside;
use crate::payload::{Payload, SeatAt, take_seat};
use crate::probe::{self, NoBwrap};
use crate::steps::{BWRAP, failed};
use crate::view::Failed;
use crate::walk::os_path;

/// Bubblewrap and what it needs, laid out.
pub(crate) struct Bubble {
    program: Program,
    /// Descriptors that come along: its arguments, ourselves, the orders. Where to report to is the fourth.
    along: [OwnedFd; 3],
}

/// Why bubblewrap cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoBubble {
    /// There is none that can be trusted.
    #[error(transparent)]
    Missing(#[from] NoBwrap),
    /// It cannot take the mounts.
    #[error(transparent)]
    Arguments(#[from] BwrapError),
    /// Something it needs could not be made.
    #[error("cannot make what bubblewrap needs")]
    Make(#[from] io::Error),
}

impl Bubble {
    /// Lays everything out. `errors` is where the payload will report to: it has the same number there.
    pub(crate) fn new(
        mounts: &[MountOp],
        session: &AbsPath,
        payload: &Payload,
        errors: BorrowedFd<'_>,
    ) -> Result<Self, NoBubble> {
        let program = probe::bwrap::find()?;
        let starter = if payload.becomes.is_some() { Starter::Root } else { Starter::User };
        let arguments = bwrap(mounts, &masks(session)?, starter)?;
        let own = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let own = own.map_err(io::Error::from)?;
        let orders = sealed("ringfence-orders", &inside::orders(payload))?;
        let mut lines = arguments.join(&0);
        lines.push(0);
        let lines = sealed("ringfence-bwrap", &lines)?;
        let c_string = |text: &str| CString::new(text).map_err(io::Error::other);
        // The command itself is not taken from the file.
        let words = [
            "bwrap",
            "--args",
            &lines.as_raw_fd().to_string(),
            "--",
            &format!("/proc/self/fd/{}", own.as_raw_fd()),
            inside::COMMAND,
            &orders.as_raw_fd().to_string(),
            &errors.as_raw_fd().to_string(),
        ];
        let words = Words {
            candidates: vec![CString::new(program.into_os_string().into_vec()).map_err(io::Error::other)?],
            arguments: words.into_iter().map(c_string).collect::<io::Result<_>>()?,
            // Its first process shows its environment to the payload, which must find nothing there that it does not have.
            environment: payload.program.words().environment.clone(),
        };
        Ok(Self { program: Program::new(words), along: [lines, own, orders] })
    }

    /// What it must find open.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        self.along.each_ref().map(OwnedFd::as_raw_fd)
    }

    /// Becomes bubblewrap. Returns only on failure. Allocates nothing.
    ///
    /// The signals that are passed on stay blocked in bubblewrap, so that they reach the payload and do not end what watches it.
    pub(crate) fn become_program(&self, seat: SeatAt<'_>, errors: BorrowedFd<'_>) -> Failed {
        if let Err(failed) = take_seat(seat) {
            return failed;
        }
        let mut kept = self.along.iter().map(OwnedFd::as_fd).chain([errors]);
        let prepared = process::close_on_exec_from(3).and_then(|()| kept.try_for_each(process::keep_on_exec));
        if let Err(error) = prepared {
            return failed(BWRAP, &error);
        }
        process::restore_callers_umask();
        failed(BWRAP, &self.program.exec())
    }
}

/// What masks are made of: files of the session that nobody may read.
pub(crate) fn masks(session: &AbsPath) -> io::Result<Places> {
    let dir = session.join("masks");
    let places = Places {
        session: session.clone(),
        tmp: session.join("tmp"),
        mask_file: dir.join("file"),
        mask_directory: dir.join("directory"),
    };
    fs::DirBuilder::new().mode(0o700).create(os_path(&dir))?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(os_path(&places.mask_file))?;
    fs::DirBuilder::new().mode(0o000).create(os_path(&places.mask_directory))?;
    Ok(places)
}

/// A file without a name that begins at its beginning.
fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = fs::File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}
