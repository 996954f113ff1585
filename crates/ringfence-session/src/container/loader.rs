//! ringfence itself in an image that has other libraries, or none: it brings its own along.
//!
//! What the running program has mapped is what it needs, so nothing has to be looked up. A program without a loader needs none
//! of it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use ringfence_plan::MountOp;
use ringfence_surface::AbsPath;

use crate::given;
use crate::walk::os_path;

/// What is brought along besides the program: where it goes, and how the program is started by it.
pub(super) struct Brought {
    pub(super) mounts: Vec<MountOp>,
    /// What comes before the program's own path.
    pub(super) before: Vec<Vec<u8>>,
}

/// An empty list of libraries, in the session's directory.
const PRELOADED: &str = "ld.so.preload";

/// The libraries of this program, and its loader first; nothing where it has none.
fn mapped() -> io::Result<Vec<AbsPath>> {
    let maps = fs::read("/proc/self/maps")?;
    let own = fs::read_link("/proc/self/exe")?;
    let mut files: Vec<AbsPath> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
        let is_code = line.windows(6).any(|part| part == b" r-xp ");
        if let (true, Ok(path)) = (is_code, AbsPath::lexical(&line[at..]))
            && path.as_bytes() != own.as_os_str().as_bytes()
            && !files.contains(&path)
        {
            files.push(path);
        }
    }
    let is_loader = |path: &AbsPath| path.file_name().is_some_and(|name| name.starts_with(b"ld-"));
    files.sort_by_key(|path| !is_loader(path));
    Ok(files)
}

/// Does this program run anywhere, without a library?
pub(super) fn is_whole() -> io::Result<bool> {
    Ok(mapped()?.is_empty())
}

/// Lays out what this program needs, in what is given to the session.
pub(super) fn bring(session: &AbsPath) -> io::Result<Brought> {
    let files = mapped()?;
    let Some((loader, _)) = files.split_first() else { return Ok(Brought { mounts: Vec::new(), before: Vec::new() }) };
    let dir = given::dir(session).join("lib");
    fs::DirBuilder::new().mode(0o755).create(os_path(&dir))?;
    let mut mounts = Vec::new();
    for source in &files {
        let path = dir.child(source.file_name().unwrap_or(b"library"));
        // Something to mount over.
        fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(os_path(&path))?;
        mounts.push(MountOp::Program { path, source: source.clone() });
    }
    // The loader would begin with libraries that an image names there.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(os_path(&session.join(PRELOADED)))?;
    mounts.push(MountOp::Own { path: AbsPath::root().join("etc/ld.so.preload"), name: PRELOADED.to_owned() });
    let loader = dir.child(loader.file_name().unwrap_or(b"library"));
    let before = vec![loader.as_bytes().to_vec(), b"--library-path".to_vec(), dir.as_bytes().to_vec()];
    Ok(Brought { mounts, before })
}
