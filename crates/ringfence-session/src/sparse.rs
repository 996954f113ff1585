//! Copying a file with its holes.
//!
//! An agent makes a sparse file of a tebibyte in a moment. A copy that writes its zeros fills the disk: so extents are shared where
//! the file system can (FICLONE), and otherwise only the ranges that hold data (SEEK_DATA, SEEK_HOLE) are copied.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// So much is copied at a time where the kernel does not copy by itself.
const CHUNK: usize = 128 << 10;

/// Copies the content of a file into an empty one.
///
/// # Errors
/// What reading and writing answer.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let size = rustix::fs::fstat(from)?.st_size.cast_unsigned();
    let mut at = 0;
    while let Some(data) = next_data(from, at)? {
        let end = match rustix::fs::seek(from, SeekFrom::Hole(data)) {
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => size,
            found => found?.min(size),
        };
        copy_range(from, to, data, end)?;
        at = end;
    }
    Ok(rustix::fs::ftruncate(to, size)?)
}

/// Where the data of a file goes on from a place. `None` where only a hole is left.
pub(crate) fn next_data(file: &File, at: u64) -> rustix::io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => Ok(None),
        // The file system does not know its holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) if at < rustix::fs::fstat(file)?.st_size.cast_unsigned() => Ok(Some(at)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
        found => found.map(Some),
    }
}

fn copy_range(from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        let (mut read_at, mut write_at) = (at, at);
        match rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), length) {
            // The file became shorter.
            Ok(0) => return Ok(()),
            Ok(copied) => at += copied as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => {
                return copy_by_hand(from, to, at, end);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        match from.read_at(&mut chunk[..length], at) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all_at(&chunk[..read], at)?;
                at += read as u64;
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// [G3]
    #[test]
    fn g3_holes_stay_holes_and_data_stays_data() {
        let dir = tempfile::tempdir().unwrap();
        for by_hand in [false, true] {
            let from = File::options().read(true).write(true).create(true).truncate(true).open(dir.path().join("from"));
            let from = from.unwrap();
            from.set_len(1 << 40).unwrap();
            for at in [0, 1 << 20, (1 << 40) - 5] {
                from.write_all_at(b"data!", at).unwrap();
            }
            let to = File::options().read(true).write(true).create(true).truncate(true).open(dir.path().join("to"));
            let to = to.unwrap();
            if by_hand {
                copy_by_hand(&from, &to, 1 << 20, (1 << 20) + 5).unwrap();
            } else {
                copy(&from, &to).unwrap();
                assert_eq!(to.metadata().unwrap().len(), 1 << 40);
                let mut data = [0; 5];
                to.read_exact_at(&mut data, (1 << 40) - 5).unwrap();
                assert_eq!(&data, b"data!");
            }
            let mut data = [0; 5];
            to.read_exact_at(&mut data, 1 << 20).unwrap();
            assert_eq!(&data, b"data!");
            assert!(to.metadata().unwrap().blocks() * 512 < 1 << 20);
        }
    }
}
