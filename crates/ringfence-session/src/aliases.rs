//! One file at several places: what a host mounts twice is guarded at each of them.
//!
//! `/home` may also be mounted at `/mnt/disk/home`, or the whole disk somewhere. The table of mounts says which part of
//! which file system each of them shows, and so where else a path can be found. Most hosts have no such mounts, and then
//! nothing here costs anything.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;

use ringfence_surface::AbsPath;

/// One mount of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mounted {
    /// Its number, and that of the mount it stands on.
    id: u64,
    parent: u64,
    /// The file system, as the kernel numbers it.
    device: Vec<u8>,
    /// Which part of it is shown.
    root: AbsPath,
    /// Where.
    point: AbsPath,
}

/// The mounts that show something twice.
#[derive(Debug)]
pub(crate) struct Aliases {
    /// Every mount that a path leads to.
    mounts: Vec<Mounted>,
    /// The places, each with all below it, that are shown elsewhere too.
    twice: Vec<AbsPath>,
}

impl Aliases {
    /// From the host's table.
    pub(crate) fn of_host() -> Self {
        Self::new(&mount_table().unwrap_or_default())
    }

    fn new(table: &[u8]) -> Self {
        let mounts: Vec<Mounted> = table.split(|byte| *byte == b'\n').filter_map(mounted).collect();
        let mounts = shown(mounts);
        let mut of_one: HashMap<&[u8], Vec<&Mounted>> = HashMap::new();
        for mount in &mounts {
            of_one.entry(&mount.device).or_default().push(mount);
        }
        let pairs = of_one.values().flat_map(|of_one| of_one.iter().flat_map(|a| of_one.iter().map(move |b| (a, b))));
        let mut places: Vec<AbsPath> = pairs.filter_map(|(a, b)| a.within(b)).flatten().collect();
        places.sort();
        let mut twice: Vec<AbsPath> = Vec::new();
        for place in places {
            // What lies in another one needs no mention of its own.
            if twice.last().is_none_or(|last| !place.is_within(last)) {
                twice.push(place);
            }
        }
        Self { mounts, twice }
    }

    /// Is a place, or something below it, shown elsewhere too?
    pub(crate) fn touch(&self, path: &AbsPath) -> bool {
        self.twice.iter().any(|place| path.is_within(place) || place.is_within(path))
    }

    /// Something that the host has mounted below a place, if there is anything.
    pub(crate) fn mounted_below(&self, path: &AbsPath) -> Option<&AbsPath> {
        self.mounts.iter().map(|mount| &mount.point).find(|point| point.is_within(path) && *point != path)
    }

    /// Where else a place, or a part of it, may be found. Whether it is, only a look can tell.
    pub(crate) fn of(&self, path: &AbsPath) -> Vec<AbsPath> {
        if !self.touch(path) {
            return Vec::new();
        }
        let holds = |mount: &&Mounted| path.is_within(&mount.point);
        // The last of those at one place is the one that shows.
        let own = self.mounts.iter().filter(holds).max_by_key(|mount| mount.point.as_bytes().len());
        let Some(own) = own else { return Vec::new() };
        let inside = moved(path, &own.point, &own.root);
        let others = self.mounts.iter().filter(|other| other.device == own.device);
        let mut found: Vec<AbsPath> = others.filter_map(|other| other.place_of(&inside)).collect();
        found.retain(|other| other != path);
        found.sort();
        found.dedup();
        found
    }
}

impl Mounted {
    /// Where this mount shows a path of its file system, or the part of it that it shows.
    fn place_of(&self, inside: &AbsPath) -> Option<AbsPath> {
        if inside.is_within(&self.root) {
            return Some(moved(inside, &self.root, &self.point));
        }
        self.root.is_within(inside).then(|| self.point.clone())
    }

    /// Where another mount of the same file system shows what this one shows, and where this one does, if these are two places.
    fn within(&self, other: &Self) -> Option<[AbsPath; 2]> {
        let there = self.root.is_within(&other.root).then(|| moved(&self.root, &other.root, &other.point))?;
        (there != self.point).then(|| [there, self.point.clone()])
    }
}

/// The mounts that nothing lies over. In a view of ours pins are buried below what was mounted again: no path leads to them.
fn shown(mounts: Vec<Mounted>) -> Vec<Mounted> {
    let mut covered: HashSet<u64> = HashSet::new();
    let mut siblings: HashMap<u64, Vec<&Mounted>> = HashMap::new();
    for mount in &mounts {
        siblings.entry(mount.parent).or_default().push(mount);
    }
    let at: HashMap<u64, &AbsPath> = mounts.iter().map(|mount| (mount.id, &mount.point)).collect();
    for mount in &mounts {
        // Mounted on the very root of another one.
        if at.get(&mount.parent).is_some_and(|point| **point == mount.point) && mount.parent != mount.id {
            covered.insert(mount.parent);
        }
        let is_over = |other: &&Mounted| ![mount.id, mount.parent].contains(&other.id) && mount.point != other.point;
        let beside = siblings.get(&mount.parent).into_iter().flatten().copied();
        if beside.filter(is_over).any(|other| mount.point.is_within(&other.point)) {
            covered.insert(mount.id);
        }
    }
    let parents: HashMap<u64, u64> = mounts.iter().map(|mount| (mount.id, mount.parent)).collect();
    let is_shown = |mount: &Mounted| {
        // What stands on something covered is covered with it. The table of a damaged kernel may lead in a circle.
        let chain = std::iter::successors(Some(mount.id), |id| parents.get(id).copied().filter(|next| next != id));
        !chain.take(mounts.len() + 1).any(|id| covered.contains(&id))
    };
    let keep: Vec<bool> = mounts.iter().map(is_shown).collect();
    mounts.into_iter().zip(keep).filter_map(|(mount, keep)| keep.then_some(mount)).collect()
}

/// A path below `from`, seen below `to`.
fn moved(path: &AbsPath, from: &AbsPath, to: &AbsPath) -> AbsPath {
    let depth = from.components().count();
    path.components().skip(depth).fold(to.clone(), |at, name| at.child(name))
}

/// A line of mountinfo: its number, that of the mount it stands on, the device, the root, the place.
fn mounted(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let device = fields.next()?.to_vec();
    let root = AbsPath::lexical(&unescaped(fields.next()?)).ok()?;
    let point = AbsPath::lexical(&unescaped(fields.next()?)).ok()?;
    Some(Mounted { id, parent, device, root, point })
}

/// The kernel's table of mounts. It does not say how long it is, and writes each part anew: so there is room for all of it.
fn mount_table() -> std::io::Result<Vec<u8>> {
    let mut table = Vec::with_capacity(1 << 14);
    fs::File::open("/proc/self/mountinfo")?.read_to_end(&mut table)?;
    Ok(table)
}

/// Where something is mounted on this host.
pub(crate) fn mount_points() -> std::io::Result<Vec<AbsPath>> {
    let table = mount_table()?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(mounted).map(|mounted| mounted.point).collect())
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(value) => {
                out.push(value);
                rest = &after[3..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(table: &[(&str, &str, &str)], path: &str, expected: &[&str]) {
        let line = |(id, (device, root, point)): (usize, &(&str, &str, &str))| {
            let parent = usize::from(*point != "/");
            format!("{id} {parent} {device} {root} {point} rw,relatime shared:1 - ext4 /dev/vda rw\n")
        };
        let table: String = (1..).zip(table).map(line).collect();
        let found: Vec<String> =
            Aliases::new(table.as_bytes()).of(&abs(path)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn what_is_mounted_twice() {
        let plain = [("8:1", "/", "/"), ("8:2", "/", "/home"), ("0:5", "/", "/proc")];
        check(&plain, "/home/u/.ssh", &[]);
        // A whole disk once more, and a part of it.
        let twice = [("8:1", "/", "/"), ("8:1", "/home", "/mnt/homes"), ("8:1", "/", "/mnt/disk")];
        check(&twice, "/home/u/.ssh", &["/mnt/disk/home/u/.ssh", "/mnt/homes/u/.ssh"]);
        check(&twice, "/mnt/homes/u/.ssh", &["/home/u/.ssh", "/mnt/disk/home/u/.ssh"]);
        check(&twice, "/etc/shadow", &["/mnt/disk/etc/shadow"]);
        // Something inside what is denied, mounted elsewhere.
        check(&[("8:1", "/", "/"), ("8:1", "/home/u/.ssh/keys", "/keys")], "/home/u/.ssh", &["/keys"]);
        // Subvolumes beside each other show nothing twice; the whole file system does.
        let subvolumes = [("0:9", "/@", "/"), ("0:9", "/@home", "/home")];
        check(&subvolumes, "/home/u/.ssh", &[]);
        assert_eq!(Aliases::new(b"1 1 0:9 /@ / rw - x x x\n2 1 0:9 /@home /home rw - x x x\n").twice, []);
        check(&[subvolumes[0], subvolumes[1], ("0:9", "/", "/mnt")], "/home/u/.ssh", &["/mnt/@home/u/.ssh"]);
        // A directory on itself is in one place only.
        assert_eq!(Aliases::new(b"1 1 8:1 / / rw - x x x\n2 1 8:1 /nix/store /nix/store ro - x x x\n").twice, []);
        check(&[("8:1", "/", "/"), ("8:1", "/a\\040b", "/c\\134d")], "/a b/x", &["/c\\d/x"]);
        assert_eq!(Aliases::new(b"garbage\n\n").mounts, []);
    }

    /// One file that is bound elsewhere is no reason to look everywhere.
    #[test]
    fn only_what_is_shown_twice_is_touched() {
        let table = b"1 1 8:1 / / rw - x x x\n2 1 8:1 /srv/hosts /etc/hosts rw - x x x\n\
                      3 1 8:1 /srv/a /mnt/a rw - x x x\n4 1 8:1 /srv/a/b /mnt/b rw - x x x\n";
        let aliases = Aliases::new(table);
        let expected = ["/etc/hosts", "/mnt/a", "/mnt/b", "/srv/a", "/srv/hosts"].map(abs);
        assert_eq!(aliases.twice, expected);
        for (path, is_touched) in [
            ("/etc/hosts", true),
            ("/etc", true),
            ("/", true),
            ("/mnt/a/x", true),
            ("/srv/a/b/c", true),
            ("/etc/hosts.deny", false),
            ("/home/u/.ssh", false),
            ("/mnt/c", false),
        ] {
            assert_eq!(aliases.touch(&abs(path)), is_touched, "{path}");
        }
        assert_eq!(aliases.of(&abs("/srv/a/b")), [abs("/mnt/a/b"), abs("/mnt/b")]);
    }

    /// In a view of ours: what masks are made of is also buried as a pin, where nobody comes to it.
    #[test]
    fn what_is_buried_is_in_no_place() {
        let table = "1 0 0:1 / / rw - x x x\n2 1 8:1 /p /p rw - x x x\n3 2 0:2 /directory /p/.git ro - x x x\n\
                     4 2 8:1 /p /p rw - x x x\n5 4 8:1 /p/.git/hooks /p/.git/hooks ro - x x x\n\
                     6 1 0:2 /directory /etc/keys ro - x x x\n7 1 0:2 /directory /etc/other ro - x x x\n";
        let of = |path: &str| -> Vec<String> {
            Aliases::new(table.as_bytes()).of(&abs(path)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(of("/etc/keys"), ["/etc/other"]);
        assert_eq!(of("/p/.git/hooks"), [""; 0]);
        // Something over a directory hides what was mounted below it before, and shows what is mounted below it since.
        let over = "1 0 8:1 / / rw - x x x\n2 1 8:2 /a /m/a rw - x x x\n3 1 8:2 /a /n rw - x x x\n\
                    4 1 8:3 / /m rw - x x x\n5 4 8:2 /a /m/b rw - x x x\n";
        let found = Aliases::new(over.as_bytes()).of(&abs("/n/x"));
        assert_eq!(found, [abs("/m/b/x")]);
    }
}
