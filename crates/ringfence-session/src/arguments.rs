//! The first process inside is a copy of the supervisor, and whoever is inside may read its command line: `--policy`, `--ref`
//! and the like name paths of the host. The copy forgets them.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The memory that `/proc/PID/cmdline` shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments {
    start: u64,
    end: u64,
}

impl Arguments {
    /// Where it is in this process, and so in a copy of it.
    pub(crate) fn find() -> Option<Self> {
        let stat = std::fs::read("/proc/self/stat").ok()?;
        // The name of the program, in brackets, is the only field that may hold a space; the next one is the third.
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&str> = std::str::from_utf8(stat.get(after + 2..)?).ok()?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok().filter(|address| *address != 0);
        Some(Self { start: field(48)?, end: field(49)? })
    }

    /// Wipes it. What cannot be wiped stays readable, which is no claim. Allocates nothing.
    pub(crate) fn wipe(self) {
        let Ok(memory) = rustix::fs::open(c"/proc/self/mem", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else {
            return;
        };
        let nothing = [0_u8; 512];
        let mut at = self.start;
        while at < self.end {
            let length = usize::try_from(self.end - at).unwrap_or(nothing.len()).min(nothing.len());
            match rustix::io::pwrite(&memory, &nothing[..length], at) {
                Ok(0) => return,
                Ok(written) => at += written as u64,
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
