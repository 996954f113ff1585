//! Archives whose bytes depend on nothing but what is in them: tar, gzip, ar and zip, with one owner, one time and one order.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

/// One file of an archive. Directories above it are made from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative, without `./`, as ASCII.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes: bytes.into() }
    }

    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o755, bytes: bytes.into() }
    }

    /// The same file below a directory.
    pub(super) fn below(&self, dir: &str) -> Self {
        Self { path: format!("{dir}/{}", self.path), ..self.clone() }
    }
}

/// Seconds since 1970, for everything in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) u64);

/// Every directory above the entries, each once, before what is in it.
pub(super) fn directories(entries: &[Entry]) -> Vec<String> {
    let above = |entry: &Entry| {
        let path = PathBuf::from(&entry.path);
        path.ancestors().skip(1).filter_map(|dir| dir.to_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = entries.iter().flat_map(above).filter(|dir| !dir.is_empty()).collect();
    all.sort();
    all.dedup();
    all
}

/// A tar archive (ustar), owned by root. `prefix` stands before each path: `./` for Debian, otherwise nothing.
pub(super) fn tar(entries: &[Entry], prefix: &str, time: Time) -> Vec<u8> {
    let mut rows: Vec<(String, u32, u8, &[u8])> = Vec::new();
    rows.extend(directories(entries).into_iter().map(|dir| (format!("{prefix}{dir}/"), 0o755, b'5', &[][..])));
    if !prefix.is_empty() {
        rows.push((prefix.to_owned(), 0o755, b'5', &[]));
    }
    rows.extend(entries.iter().map(|entry| (format!("{prefix}{}", entry.path), entry.mode, b'0', &entry.bytes[..])));
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    let mut tar = Vec::new();
    for (path, mode, kind, bytes) in rows {
        tar.extend(header(&path, mode, kind, bytes.len(), time));
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn header(path: &str, mode: u32, kind: u8, size: usize, Time(time): Time) -> [u8; 512] {
    // Longer names go into two fields, split at a slash.
    let cut = if path.len() <= 100 { 0 } else { path[..path.len() - 1].rfind('/').map_or(0, |at| at + 1) };
    let (prefix, name) = (path[..cut].trim_end_matches('/'), &path[cut..]);
    assert!(name.len() <= 100 && prefix.len() <= 155, "a path too long for ustar: {path}");
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{time:011o}"));
    put(148, "        ");
    put(257, "ustar\x0000");
    put(265, "root");
    put(297, "root");
    put(345, prefix);
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Compressed, with no name and no time in the header.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    gzip.extend(miniz_oxide::deflate::compress_to_vec(bytes, 9));
    gzip.extend(crc32(bytes).to_le_bytes());
    gzip.extend(u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(u32::MAX).to_le_bytes());
    gzip
}

/// The container of a Debian package.
pub(super) fn ar(members: &[(&str, &[u8])], Time(time): Time) -> Vec<u8> {
    let mut ar = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        ar.extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len()).as_bytes());
        ar.extend(*bytes);
        if bytes.len() % 2 == 1 {
            ar.push(b'\n');
        }
    }
    ar
}

/// 1980-01-01, the first day that a zip archive knows.
const ZIP_TIME: [u8; 4] = [0, 0, 0x21, 0];

/// A zip archive, as wheels are.
pub(super) fn zip(entries: &[Entry]) -> Vec<u8> {
    let mut zip = Vec::new();
    let mut central = Vec::new();
    for entry in entries {
        let packed = miniz_oxide::deflate::compress_to_vec(&entry.bytes, 9);
        let start = length(zip.len());
        // Version 2.0, no flags, deflate.
        let mut common = vec![20, 0, 0, 0, 8, 0];
        common.extend(ZIP_TIME);
        common.extend(crc32(&entry.bytes).to_le_bytes());
        common.extend(length(packed.len()));
        common.extend(length(entry.bytes.len()));
        common.extend(u16::try_from(entry.path.len()).unwrap_or(u16::MAX).to_le_bytes());
        common.extend([0, 0]);
        zip.extend(b"PK\x03\x04");
        zip.extend(&common);
        zip.extend(entry.path.as_bytes());
        zip.extend(&packed);
        central.extend(b"PK\x01\x02");
        // Made on Unix: only then the mode is read.
        central.extend([20, 3]);
        central.extend(&common);
        // No comment, first disk, no inner attributes.
        central.extend([0; 6]);
        central.extend(((0o100_000 | entry.mode) << 16).to_le_bytes());
        central.extend(start);
        central.extend(entry.path.as_bytes());
    }
    let count = u16::try_from(entries.len()).unwrap_or(u16::MAX).to_le_bytes();
    let (start, size) = (length(zip.len()), length(central.len()));
    zip.extend(central);
    zip.extend(b"PK\x05\x06\0\0\0\0");
    zip.extend(count);
    zip.extend(count);
    zip.extend(size);
    zip.extend(start);
    zip.extend([0, 0]);
    zip
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("what is packed is smaller than 4 GiB").to_le_bytes()
}

/// As gzip and zip have it.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut value = at as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[usize::from((crc as u8) ^ byte)])
}

/// In lowercase hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As the Python wheel format writes it: base64 for URLs, without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |chunk: &[u8]| {
        let value = (0..3).fold(0_u32, |value, at| (value << 8) | u32::from(*chunk.get(at).unwrap_or(&0)));
        let digits = (0..=chunk.len()).map(move |at| DIGITS[(value >> (18 - 6 * at)) as usize & 63]);
        digits.map(char::from).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
        vec![
            Entry::file("a/b.txt", "hello\n"),
            Entry::program("a/bin/run", "#!/bin/sh\n"),
            Entry::file(long, vec![7; 700]),
        ]
    }

    /// What the system's own program makes of an archive, in a directory of its own.
    fn unpacked(archive: &[u8], command: &[&str]) -> Vec<(String, u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("archive");
        std::fs::write(&file, archive).unwrap();
        let inside = dir.path().join("x");
        std::fs::create_dir(&inside).unwrap();
        let status =
            std::process::Command::new(command[0]).args(&command[1..]).arg(&file).current_dir(&inside).status();
        assert!(status.unwrap().success(), "{command:?}");
        let read = |entry: Entry| {
            let path = inside.join(&entry.path);
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            (entry.path, mode, std::fs::read(path).unwrap())
        };
        entries().into_iter().map(read).collect()
    }

    fn expected() -> Vec<(String, u32, Vec<u8>)> {
        entries().into_iter().map(|entry| (entry.path, entry.mode, entry.bytes)).collect()
    }

    #[test]
    fn the_systems_tar_reads_ours() {
        let tar = tar(&entries(), "", Time(1_000_000_000));
        assert_eq!(unpacked(&tar, &["tar", "xpf"]), expected());
        assert_eq!(unpacked(&gzip(&tar), &["tar", "xpzf"]), expected());
    }

    #[test]
    fn pythons_zip_reads_ours() {
        let script = "import sys, zipfile, os\nz = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall('.')\n\
                      for i in z.infolist(): os.chmod(i.filename, i.external_attr >> 16)";
        assert_eq!(unpacked(&zip(&entries()), &["python3", "-c", script]), expected());
    }

    #[test]
    fn digits_and_sums() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(
            [base64(b""), base64(b"f"), base64(b"fo"), base64(b"foo"), base64(&[255; 3])],
            ["", "Zg", "Zm8", "Zm9v", "____"]
        );
        assert!(sha256(b"").starts_with("e3b0c44298fc1c14"));
    }

    #[test]
    fn the_same_comes_out_twice() {
        let reversed: Vec<Entry> = entries().into_iter().rev().collect();
        assert_eq!(tar(&entries(), "./", Time(1)), tar(&reversed, "./", Time(1)));
    }
}
