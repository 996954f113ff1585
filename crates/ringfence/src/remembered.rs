//! What is remembered of earlier sessions: the packs that the user agreed to for each project, and the places that sessions could
//! write.
//!
//! Both close the same way around a fence: what a session makes today is there when the next one starts. A `package.json` made
//! inside would choose a pack with its hosts, and a symbolic link would lead a grant elsewhere. The files lie in ringfence's
//! state directory, which no session reads or writes. What cannot be read counts as the narrower answer.

use std::collections::BTreeSet;
use std::fs;
use std::io;
#[cfg(target_os = "linux")]
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ringfence_surface::AbsPath;
use sha2::{Digest as _, Sha256};

use crate::host::{os_path, read_bounded};
use crate::write::replace;

/// The most that is read of either file.
const MAX_BYTES: u64 = 16 << 20;

/// How often a file is written again that sessions write at the same time.
const ATTEMPTS: u32 = 16;

/// Where ringfence's state is.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    state: PathBuf,
}

impl Remembered {
    pub(crate) fn in_state(state: &AbsPath) -> Self {
        Self { state: os_path(state).into() }
    }

    /// The packs that were agreed to for a project; `None` where no session ran in it.
    pub(crate) fn packs(&self, root: &AbsPath) -> Option<BTreeSet<String>> {
        match read_bounded(&self.packs_file(root), MAX_BYTES) {
            Ok(text) => Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(BTreeSet::new()),
        }
    }

    /// Agrees to packs for a project, beside those agreed to before.
    pub(crate) fn agree<'p>(&self, root: &AbsPath, packs: impl IntoIterator<Item = &'p str>) -> io::Result<()> {
        let packs: Vec<&str> = packs.into_iter().collect();
        let path = self.packs_file(root);
        let mut attempt = 0;
        loop {
            let before = self.packs(root);
            let mut now = before.clone().unwrap_or_default();
            now.extend(packs.iter().copied().map(str::to_owned));
            if before.as_ref() == Some(&now) {
                return Ok(());
            }
            make_parent(&path)?;
            match replace(&path, now.iter().map(|name| format!("{name}\n")).collect::<String>().as_bytes()) {
                // Another session started at the same time and put its own file there.
                Err(cause) if cause.kind() == io::ErrorKind::Other && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    /// The places that sessions could write; `None` where that cannot be found out.
    pub(crate) fn written(&self) -> Option<BTreeSet<Vec<u8>>> {
        match read_bounded(&self.written_file(), MAX_BYTES) {
            Ok(text) => {
                Some(text.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect())
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Some(BTreeSet::new()),
            Err(_) => None,
        }
    }

    /// Notes places that a session can write from now on.
    #[cfg(target_os = "linux")]
    pub(crate) fn note_written<'p>(&self, places: impl IntoIterator<Item = &'p AbsPath>) -> io::Result<()> {
        let known = self.written().unwrap_or_default();
        let is_new = |place: &&AbsPath| !place.ancestors().any(|above| known.contains(above.as_bytes()));
        let new: BTreeSet<&AbsPath> = places.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let path = self.written_file();
        make_parent(&path)?;
        let lines: Vec<u8> = new.iter().flat_map(|place| [place.as_bytes(), b"\0"].concat()).collect();
        // Sessions that start at the same time append one after the other, each in one call.
        fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?.write_all(&lines)
    }

    fn packs_file(&self, root: &AbsPath) -> PathBuf {
        let name: String = Sha256::digest(root.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        self.state.join("packs").join(name)
    }

    fn written_file(&self) -> PathBuf {
        self.state.join("written")
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| fs::DirBuilder::new().recursive(true).mode(0o700).create(dir))
}
