//! An archive of the kind that a kernel unpacks as its initial ram disk (`newc`).

/// An archive.
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

impl Archive {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), entries: 0 }
    }

    pub(super) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, (0, 0), &[]);
    }

    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, (0, 0), content);
    }

    /// The kernel gives the first process its streams there.
    pub(super) fn console(&mut self) {
        self.entry("dev/console", DEVICE, (5, 1), &[]);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        // Inode, mode, user, group, links, time, size, device, device of a special file, length of the name, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length(content.len()),
            0,
            0,
            device.0,
            device.1,
            length(name.len() + 1),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08x}").as_bytes()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
