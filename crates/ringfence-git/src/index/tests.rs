//! The fixtures are indexes that git 2.47 wrote, and for each what `git ls-files --stage --sparse` printed.

use proptest::prelude::*;

use super::*;
use crate::object_id::checksum;

use ObjectFormat::{Sha1, Sha256};

macro_rules! fixture {
    ($name:literal) => {
        (
            include_bytes!(concat!("fixtures/", $name, ".index")).as_slice(),
            include_str!(concat!("fixtures/", $name, ".txt")),
        )
    };
}

const FIXTURES: &[(ObjectFormat, (&[u8], &str))] = &[
    (Sha1, fixture!("v2")),
    (Sha1, fixture!("v3")),
    (Sha1, fixture!("v4")),
    (Sha256, fixture!("sha256")),
    (Sha1, fixture!("tree")),
    (Sha1, fixture!("conflict")),
    (Sha1, fixture!("resolved")),
    (Sha1, fixture!("sparse")),
    (Sha1, fixture!("untracked")),
    (Sha1, fixture!("threads")),
    (Sha1, fixture!("threads4")),
    (Sha1, fixture!("skiphash")),
    (Sha1, fixture!("empty")),
];

const SPLIT: (&[u8], &str) = fixture!("split");
const SPLIT_BASE: &[u8] = include_bytes!("fixtures/split-base.index");

/// The lines of `git ls-files --stage`.
fn listed(index: &Index) -> String {
    let line = |entry: &IndexEntry| {
        let path = String::from_utf8(entry.path.clone()).unwrap();
        format!("{:06o} {} {}\t{path}\n", entry.mode.bits(), entry.id, entry.stage as u8)
    };
    index.entries.iter().map(line).collect()
}

fn parsed(fixture: (&[u8], &str)) -> Index {
    Index::parse(Sha1, fixture.0).unwrap()
}

/// Puts the right checksum at the end of a file that was changed.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    file.truncate(file.len() - 20);
    let end = checksum(Sha1, &[&file]);
    file.extend(end.as_bytes());
    file
}

/// A fixture of SHA-1 with other bytes at one place.
fn changed(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    sealed(file)
}

/// Where these bytes stand in a file, for the first time.
#[track_caller]
fn find(file: &[u8], bytes: &[u8]) -> usize {
    file.windows(bytes.len()).position(|window| window == bytes).unwrap()
}

#[track_caller]
fn check(file: &[u8], expected: Fault) {
    assert_eq!(Index::parse(Sha1, file), Err(expected));
}

fn entry(path: &str) -> IndexEntry {
    IndexEntry {
        path: path.into(),
        mode: EntryMode::Regular,
        id: ObjectId::Sha1([7; 20]),
        stage: MergeStage::Merged,
        assume_valid: false,
        skip_worktree: false,
        intent_to_add: false,
        stat: StatData { ctime: (1, 2), mtime: (3, 4), dev: 5, ino: 6, uid: 7, gid: 8, size: 9 },
    }
}

fn index_of(version: u32, entries: Vec<IndexEntry>) -> Index {
    Index {
        version,
        format: Sha1,
        entries,
        extensions: vec![],
        base: None,
        cache_tree: None,
        is_sparse: false,
        checksum: ObjectId::zero(Sha1),
    }
}

/// Writes entries as they are, right or wrong, and reads them.
fn reread(version: u32, entries: Vec<IndexEntry>) -> Result<Index, Fault> {
    Index::parse(Sha1, &index_of(version, entries).write().unwrap())
}

#[test]
fn indexes_that_git_wrote() {
    for (format, (file, expected)) in FIXTURES {
        let index = Index::parse(*format, file).unwrap();
        assert_eq!(&listed(&index), expected);
        let written = index.write().unwrap();
        let again = Index::parse(*format, &written).unwrap();
        assert_eq!(again.entries, index.entries);
        assert_eq!((again.version, again.is_sparse), (index.version, index.is_sparse));
        if index.extensions.is_empty() && !index.checksum.is_zero() {
            assert_eq!(&written, file, "git and we write the same bytes");
        }
    }
}

#[test]
fn what_entries_say() {
    let index = parsed(fixture!("v3"));
    let of = |path: &str| index.entry(path.as_bytes()).unwrap();
    assert!(of("dir/two").skip_worktree && !of("run").skip_worktree);
    assert!(of("new").intent_to_add && !of("dir/two").intent_to_add);
    assert!(of("run").assume_valid && !of("new").assume_valid);
    assert_eq!(of("vendor").mode, EntryMode::Gitlink);
    assert_eq!(of("link").mode, EntryMode::SymbolicLink);
    assert_eq!((of("run").mode, of("run").stat.size), (EntryMode::Executable, 10));
    assert_eq!(index.entry(b"dir"), None);
    let conflict = parsed(fixture!("conflict"));
    assert_eq!(conflict.entry(b"dir/two"), None);
    let stages: Vec<MergeStage> = conflict.entries.iter().filter(|e| e.path == b"dir/two").map(|e| e.stage).collect();
    assert_eq!(stages, [MergeStage::Ancestor, MergeStage::Ours, MergeStage::Theirs]);
    assert!(parsed(fixture!("sparse")).entry(b"dir/").unwrap().skip_worktree);
    assert!(parsed(fixture!("skiphash")).checksum.is_zero());
}

#[test]
fn extensions_are_listed_with_their_place() {
    let names = |fixture| parsed(fixture).extensions.iter().map(|e| e.signature).collect::<Vec<_>>();
    assert_eq!(names(fixture!("resolved")), [*b"TREE", *b"REUC"]);
    assert_eq!(names(fixture!("untracked")), [*b"TREE", *b"UNTR", *b"FSMN"]);
    assert_eq!(names(fixture!("threads4")), [*b"IEOT", *b"EOIE"]);
    let tree = parsed(fixture!("tree")).extensions[0].content.clone();
    assert!(fixture!("tree").0[tree].starts_with(b"\x004 1\n"));
}

#[test]
fn a_split_index_is_merged() {
    let index = parsed(SPLIT);
    let base = Index::parse(Sha1, SPLIT_BASE).unwrap();
    assert_eq!(index.base.as_ref().unwrap().checksum, base.checksum);
    assert_eq!(index.write(), Err(WriteFault::Split));
    let merged = index.merge(&base).unwrap();
    assert_eq!(listed(&merged), SPLIT.1);
    assert_eq!(Index::parse(Sha1, &merged.write().unwrap()).unwrap().entries, merged.entries);
    assert_eq!(base.merge(&index), Ok(base.clone()), "an index that is not split is its own");
}

#[test]
fn a_split_index_with_another_base_is_refused() {
    let index = parsed(SPLIT);
    let base = Index::parse(Sha1, SPLIT_BASE).unwrap();
    assert_eq!(index.merge(&parsed(fixture!("v2"))), Err(MergeFault::Base));
    let short = Index { entries: base.entries[..1].to_vec(), ..base.clone() };
    assert_eq!(index.merge(&short), Err(MergeFault::Bitmap));
    let more = Index { entries: [index.entries.clone(), vec![entry("zz")]].concat(), ..index.clone() };
    assert_eq!(more.merge(&base).map(|merged| merged.entries.len()), Ok(base.entries.len() + 1));
    for path in ["later", "dir", "dir/two/below", "link/below", "vendor"] {
        let mut entries = [index.entries.clone(), vec![entry(path)]].concat();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let index = Index { entries, ..index.clone() };
        assert_eq!(index.merge(&base), Err(MergeFault::Entries), "{path}");
    }
    let fewer = Index { entries: index.entries[1..].to_vec(), ..index.clone() };
    assert_eq!(fewer.merge(&base), Err(MergeFault::Bitmap));
}

/// The path of a replacement comes from the base: a regular file `.gitmodules` there must not become a link here.
#[test]
fn a_replacement_is_judged_with_the_path_of_the_base() {
    let index = parsed(SPLIT);
    let base = Index::parse(Sha1, SPLIT_BASE).unwrap();
    let replaced = index.base.as_ref().unwrap().replaced.ones(base.entries.len()).unwrap();
    let mut renamed = base.clone();
    renamed.entries[replaced[0]].path = b".gitmodules".to_vec();
    let mut linked = index.clone();
    linked.entries[0].mode = EntryMode::SymbolicLink;
    assert!(index.merge(&renamed).is_ok());
    assert_eq!(linked.merge(&renamed), Err(MergeFault::Entries));
}

#[test]
fn an_entry_without_path_needs_a_base() {
    check(&index_of(2, vec![entry("")]).write().unwrap(), Fault::Order { offset: 12 });
}

#[test]
fn wrong_heads_and_ends() {
    let (file, _) = fixture!("v2");
    check(&[], Fault::Truncated { offset: 0 });
    check(&sealed(vec![0; 20]), Fault::Truncated { offset: 0 });
    check(&changed(file, 0, b"DIRK"), Fault::Signature);
    check(&changed(file, 7, &[5]), Fault::Version { version: 5 });
    check(&changed(file, 7, &[1]), Fault::Version { version: 1 });
    check(&[file, b"x"].concat(), Fault::Checksum);
    check(&[&file[..file.len() - 1], b"x"].concat(), Fault::Checksum);
    check(&changed(file, 8, &[0xff; 4]), Fault::Truncated { offset: 380 });
    // One entry fewer than there are: what follows is no extension.
    assert!(matches!(
        Index::parse(Sha1, &changed(file, 11, &[4])),
        Err(Fault::Extension { .. } | Fault::Truncated { .. })
    ));
    assert!(Index::parse(Sha256, file).is_err());
    for cut in 0..file.len() - 20 {
        assert!(Index::parse(Sha1, &sealed([&file[..cut], &[0; 20]].concat())).is_err(), "{cut}");
    }
    let zero = [&file[..file.len() - 20], &[0; 20]].concat();
    assert_eq!(Index::parse(Sha1, &zero).unwrap().entries, parsed(fixture!("v2")).entries);
}

#[test]
fn wrong_entries() {
    let (file, _) = fixture!("v2");
    // The first entry begins at 12: its mode at 36, its flags at 72, its path at 74, 3 bytes of 0 after it at 85.
    for bits in [0u32, 0o100_664, 0o100_777, 0o140_000, 0o1_100_644] {
        check(&changed(file, 36, &bits.to_be_bytes()), Fault::Mode { offset: 12, bits });
    }
    check(&changed(file, 36, &0o040_000u32.to_be_bytes()), path_fault(b"dir/sub/one", entry_path::Fault::EmptyPart));
    check(&changed(file, 72, &[0x40]), Fault::Flags { offset: 12 });
    check(&changed(file, 73, &[10]), Fault::Flags { offset: 12 });
    check(&changed(file, 73, &[12]), Fault::Flags { offset: 12 });
    check(&changed(file, 72, &[0x0f, 0xff]), Fault::Flags { offset: 12 });
    assert_eq!(&file[85..88], [0; 3]);
    check(&changed(file, 87, b"x"), Fault::Name { offset: 12 });
    let (v3, _) = fixture!("v3");
    let extended = find(v3, b"dir/two") - 2;
    let start = extended - 62;
    check(&changed(v3, extended, &[0x80]), Fault::Flags { offset: start });
    check(&changed(v3, extended, &[0x41]), Fault::Flags { offset: start });
    check(&changed(v3, 7, &[2]), Fault::Flags { offset: start });
    let (v4, _) = fixture!("v4");
    let shared = find(v4, b"two\0") - 1;
    assert_eq!(v4[shared], 7);
    check(&changed(v4, shared, &[12]), Fault::Name { offset: shared - 64 });
    check(&changed(v4, shared, &[3]), Fault::Flags { offset: shared - 64 });
}

fn path_fault(path: &[u8], cause: entry_path::Fault) -> Fault {
    Fault::Path { offset: 12, path: path.to_vec(), cause }
}

#[test]
fn every_path_is_verified() {
    use entry_path::Fault::{Dots, EmptyPart, GitDirectory, GitModulesLink};
    for version in [2, 3, 4] {
        for (path, cause) in [
            (".git/config", GitDirectory),
            ("a/.GIT/hooks/pre-commit", GitDirectory),
            ("../a", Dots),
            ("/etc/passwd", EmptyPart),
            ("a/", EmptyPart),
        ] {
            assert_eq!(reread(version, vec![entry(path)]), Err(path_fault(path.as_bytes(), cause)));
        }
        let link = IndexEntry { mode: EntryMode::SymbolicLink, ..entry(".gitmodules") };
        assert_eq!(reread(version, vec![link]), Err(path_fault(b".gitmodules", GitModulesLink)));
        assert!(reread(version, vec![entry(".gitmodules")]).is_ok());
    }
}

#[test]
fn entries_come_in_order() {
    let at = |stage, path: &str| IndexEntry { stage, ..entry(path) };
    let order = |entries: Vec<IndexEntry>| reread(2, entries);
    let second = Err(Fault::Order { offset: 12 + 64 });
    assert!(order(vec![entry("a"), entry("a-b"), entry("a0"), entry("b")]).is_ok());
    assert_eq!(order(vec![entry("b"), entry("a")]), second);
    assert_eq!(order(vec![entry("a"), entry("a")]), second);
    assert_eq!(order(vec![at(MergeStage::Ours, "a"), at(MergeStage::Ours, "a")]), second);
    assert_eq!(order(vec![at(MergeStage::Theirs, "a"), at(MergeStage::Ours, "a")]), second);
    assert_eq!(order(vec![entry("a"), at(MergeStage::Ours, "a")]), second);
    assert!(order(vec![at(MergeStage::Ours, "a"), at(MergeStage::Theirs, "a")]).is_ok());
}

#[test]
fn a_path_is_a_file_or_a_directory() {
    let conflicts = |paths: &[&str], file: &str| {
        let found = reread(4, paths.iter().map(|path| entry(path)).collect());
        assert!(matches!(found, Err(Fault::FileAndDirectory { path, .. }) if path == file.as_bytes()), "{paths:?}");
    };
    conflicts(&["a", "a/b"], "a");
    conflicts(&["a", "a-b", "a.b/c", "a/b/c"], "a");
    conflicts(&["a/b", "a/b-c", "a/b/c"], "a/b");
    conflicts(&["a/b/c", "a/b/c/d/e"], "a/b/c");
    assert!(reread(4, ["a-b", "a/b", "a/c/d", "a0", "b"].map(entry).to_vec()).is_ok());
    let staged = IndexEntry { stage: MergeStage::Ours, ..entry("a") };
    assert!(reread(4, vec![staged, entry("a/b")]).is_ok(), "a conflict may be about just that");
}

#[test]
fn directories_are_entries_of_a_sparse_index_only() {
    let directory = IndexEntry { mode: EntryMode::Directory, skip_worktree: true, ..entry("a/") };
    let read = |is_sparse, entries| Index::parse(Sha1, &Index { is_sparse, ..index_of(3, entries) }.write().unwrap());
    assert!(read(true, vec![directory.clone()]).is_ok());
    assert_eq!(read(false, vec![directory.clone()]), Err(Fault::Directory { offset: 12 }));
    let wanted = IndexEntry { skip_worktree: false, ..directory.clone() };
    assert_eq!(read(true, vec![wanted]), Err(Fault::Directory { offset: 12 }));
    let conflict = Fault::FileAndDirectory { offset: 12 + 72, path: b"a/".to_vec() };
    assert_eq!(read(true, vec![directory.clone(), entry("a/b")]), Err(conflict));
    assert!(matches!(read(true, vec![entry("a"), directory]), Err(Fault::FileAndDirectory { .. })));
}

/// A file with another part after the entries.
fn with_extension(file: &[u8], signature: &[u8], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap().to_be_bytes();
    sealed([&file[..file.len() - 20], signature, &size, content, &[0; 20]].concat())
}

#[test]
fn extensions_that_git_must_understand() {
    let (file, _) = fixture!("v2");
    let offset = file.len() - 20;
    assert!(Index::parse(Sha1, &with_extension(file, b"XYZW", b"later versions of git")).is_ok());
    check(&with_extension(file, b"xyzw", b""), Fault::Extension { offset });
    check(&with_extension(file, b"link", b"short"), Fault::Extension { offset });
    check(&with_extension(file, b"link", &[1; 27]), Fault::Extension { offset });
    check(&with_extension(file, b"sdir", b"x"), Fault::Extension { offset });
    let twice = with_extension(&with_extension(file, b"TREE", b""), b"TREE", b"");
    check(&twice, Fault::Extension { offset: offset + 8 });
    check(&sealed([&file[..offset], b"TREE\0\0\0\x01", &[0; 20]].concat()), Fault::Truncated { offset: offset + 8 });
    let detached = Index::parse(Sha1, &with_extension(file, b"link", &[0; 20])).unwrap();
    assert_eq!(detached.base, None);
    assert!(Index::parse(Sha1, &with_extension(file, b"link", &[1; 20])).unwrap().base.is_some());
}

#[test]
fn cached_trees_are_those_of_the_entries() {
    for fixture in [
        fixture!("tree"),
        fixture!("conflict"),
        fixture!("resolved"),
        fixture!("sparse"),
        fixture!("untracked"),
        fixture!("v2"),
    ] {
        let index = parsed(fixture);
        assert_eq!(index.verify_cache_tree(), Ok(()));
        let listed = index.cache_tree.as_ref().map_or(0, |cache| cache.directories.len());
        for number in 0..listed {
            let with = |change: fn(&mut cache_tree::DirectoryTree)| {
                let mut index = index.clone();
                let directory = &mut index.cache_tree.as_mut().unwrap().directories[number];
                change(&mut directory.tree);
                (index.verify_cache_tree(), directory_fault(&index, number))
            };
            let (found, expected) = with(|tree| tree.id = ObjectId::Sha1([1; 20]));
            assert_eq!(found, expected);
            let (found, expected) = with(|tree| tree.count += 1);
            assert_eq!(found, expected);
        }
    }
    let paths = |fixture| -> Vec<Vec<u8>> {
        parsed(fixture).cache_tree.unwrap().directories.into_iter().map(|directory| directory.path).collect()
    };
    assert_eq!(paths(fixture!("tree")), [b"".to_vec(), b"dir/".to_vec(), b"dir/sub/".to_vec()]);
    assert_eq!(paths(fixture!("conflict")), [b"dir/sub/"]);
    assert_eq!(paths(fixture!("sparse")), [b"".to_vec(), b"dir/".to_vec()]);
}

fn directory_fault(index: &Index, number: usize) -> Result<(), CacheTreeFault> {
    Err(CacheTreeFault { path: index.cache_tree.as_ref().unwrap().directories[number].path.clone() })
}

/// The entries are the user's, and the trees are not: `git commit` would commit the trees.
#[test]
fn an_entry_that_its_tree_does_not_have() {
    let (file, _) = fixture!("tree");
    let index = parsed(fixture!("tree"));
    let changes: [fn(&mut Index); 6] = [
        |index| index.entries[1].id = ObjectId::Sha1([1; 20]),
        |index| index.entries[1].mode = EntryMode::Executable,
        |index| drop(index.entries.remove(1)),
        |index| index.entries.push(entry("zz")),
        |index| index.entries[3].intent_to_add = true,
        |index| index.entries[3].stage = MergeStage::Ours,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = index.clone();
        change(&mut changed);
        assert!(changed.verify_cache_tree().is_err(), "{number}");
        assert_eq!(Index::parse(Sha1, &changed.write().unwrap()).unwrap().verify_cache_tree(), Ok(()), "{number}");
    }
    let at = find(file, b"TREE");
    check(&changed(file, at + 8, b"x"), Fault::Extension { offset: at });
}

/// With these git reads other entries, or other extensions, if it uses several threads.
#[test]
fn offsets_for_threads_are_those_of_the_entries() {
    for (file, _) in [fixture!("threads"), fixture!("threads4")] {
        let table = find(file, b"IEOT");
        let end = find(file, b"EOIE");
        check(&changed(file, table + 11, &[2]), Fault::Offsets { offset: table });
        for at in [table + 15, table + 19, table + 23, table + 27] {
            let wrong = file[at].wrapping_add(1);
            check(&changed(file, at, &[wrong]), Fault::Offsets { offset: table });
        }
        for at in [end + 8, end + 11, end + 12, end + 31] {
            let wrong = file[at].wrapping_add(1);
            check(&changed(file, at, &[wrong]), Fault::Offsets { offset: end });
        }
        check(&with_extension(file, b"XYZW", b""), Fault::Offsets { offset: end });
    }
}

#[test]
fn files_are_left_out_of_the_work_tree_and_taken_in_again() {
    for (fixture, with) in [(fixture!("v2"), 3), (fixture!("v4"), 4), (fixture!("tree"), 3)] {
        let before = parsed(fixture);
        let mut index = before.clone();
        assert!(index.mark_skip_worktree(b"dir/sub/one") && index.mark_skip_worktree(b"link"));
        assert!(!index.mark_skip_worktree(b"dir/sub") && !index.mark_skip_worktree(b"nothing"));
        let mut read = Index::parse(Sha1, &index.write().unwrap()).unwrap();
        assert_eq!((read.version, read.extensions.len()), (with, 0));
        assert_eq!(read.entries, index.entries);
        assert!(read.entry(b"dir/sub/one").unwrap().skip_worktree);
        assert!(read.clear_skip_worktree(b"dir/sub/one") && read.clear_skip_worktree(b"link"));
        let read = Index::parse(Sha1, &read.write().unwrap()).unwrap();
        assert_eq!((read.version, &read.entries), (before.version, &before.entries));
    }
    let mut sparse = parsed(fixture!("sparse"));
    assert!(!sparse.clear_skip_worktree(b"dir/"), "a directory stays what it is");
    assert!(!parsed(fixture!("conflict")).mark_skip_worktree(b"dir/two"));
}

#[test]
fn files_written_since_the_index_are_compared_again() {
    let sizes = |since| {
        let mut index = index_of(2, vec![entry("a")]);
        index.distrust_files_since(since);
        index.entries[0].stat.size
    };
    assert_eq!([(3, 3), (3, 4), (3, 5), (4, 0), (2, 9)].map(sizes), [0, 0, 9, 9, 0]);
}

/// A file of a few bytes must not stand for paths of many gigabytes.
#[test]
fn the_memory_for_paths_is_bounded() {
    let front = "d/".repeat(2000);
    let entries = (0..1000).map(|number| entry(&format!("{front}{number:04}"))).collect();
    assert!(matches!(reread(4, entries), Err(Fault::Long { .. })));
}

/// The length of a path does not fit into the flags.
#[test]
fn long_paths() {
    for length in [4094, 4095, 4096] {
        for version in [2, 4] {
            let path = "a".repeat(length);
            assert_eq!(reread(version, vec![entry(&path)]).unwrap().entries[0].path.len(), length);
        }
    }
    assert!(matches!(
        reread(2, vec![entry(&"a".repeat(4097))]),
        Err(Fault::Path { cause: entry_path::Fault::Long, .. })
    ));
    assert_eq!(reread(2, vec![entry(&"a".repeat(9000))]), Err(Fault::Name { offset: 12 }));
}

#[test]
fn a_large_index() {
    let path = |number: usize| format!("a/directory/{:03}/and/one/{number:06}.file", number / 100);
    let entries: Vec<IndexEntry> = (0..100_000).map(|number| entry(&path(number))).collect();
    for version in [2, 4] {
        let read = reread(version, entries.clone()).unwrap();
        assert_eq!(read.entries, entries);
        assert!(read.entry(path(77_777).as_bytes()).is_some());
    }
}

fn any_entry() -> impl Strategy<Value = IndexEntry> {
    use EntryMode::{Executable, Gitlink, Regular, SymbolicLink};
    let mode = prop::sample::select(vec![Regular, Executable, SymbolicLink, Gitlink]);
    let stage = prop::sample::select(vec![
        MergeStage::Merged,
        MergeStage::Merged,
        MergeStage::Ancestor,
        MergeStage::Ours,
        MergeStage::Theirs,
    ]);
    let flags = any::<(bool, bool, bool)>();
    ("[a-c]{1,3}(/[a-c]{1,3}){0,3}", mode, stage, flags, any::<[u32; 9]>(), any::<[u8; 20]>()).prop_map(
        |(
            path,
            mode,
            stage,
            (assume_valid, skip_worktree, intent_to_add),
            [a, b, c, d, dev, ino, uid, gid, size],
            id,
        )| {
            let stat = StatData { ctime: (a, b), mtime: (c, d), dev, ino, uid, gid, size };
            let (path, id) = (path.into_bytes(), ObjectId::Sha1(id));
            IndexEntry { path, mode, id, stage, assume_valid, skip_worktree, intent_to_add, stat }
        },
    )
}

proptest! {
    /// What is written reads the same, if there are no conflicts between the paths; if there are, it is refused.
    #[test]
    fn what_is_written_reads_the_same(mut entries in prop::collection::vec(any_entry(), 0..12), version in 2u32..=4) {
        entries.sort_by(|a, b| a.key().cmp(&b.key()));
        entries.dedup_by(|a, b| a.path == b.path && (a.stage == b.stage || b.stage == MergeStage::Merged));
        let merged: Vec<&[u8]> = entries.iter().filter(|e| e.stage == MergeStage::Merged).map(|e| e.path.as_slice()).collect();
        let is_below = |a: &[u8], b: &[u8]| a.starts_with(b) && a.get(b.len()) == Some(&b'/');
        let has_conflict = merged.iter().any(|a| merged.iter().any(|b| is_below(a, b)));
        match reread(version, entries.clone()) {
            Ok(index) => prop_assert!(!has_conflict && index.entries == entries),
            Err(fault) => prop_assert!(has_conflict && matches!(fault, Fault::FileAndDirectory { .. }), "{fault}"),
        }
    }

    /// Any change to a file that git wrote is an error, or an index that is written and read again.
    #[test]
    fn mutations(
        number in 0..FIXTURES.len() + 2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let split = [(Sha1, SPLIT), (Sha1, (SPLIT_BASE, ""))];
        let (format, (file, _)) = FIXTURES.iter().chain(&split).nth(number).copied().unwrap();
        let mut file = file[..file.len() - format.id_len()].to_vec();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        file.resize(file.len() + format.id_len(), 0);
        if let Ok(index) = Index::parse(format, &file) {
            let merged = index.merge(&Index::parse(Sha1, SPLIT_BASE).unwrap());
            if index.base.is_none() {
                let written = index.write().unwrap();
                prop_assert_eq!(Index::parse(format, &written).unwrap().entries, index.entries);
            } else if let Ok(merged) = merged {
                let written = merged.write().unwrap();
                prop_assert_eq!(Index::parse(format, &written).unwrap().entries, merged.entries);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [b"DIRC\0\0\0\x04\0\0\0\x02".as_slice(), &bytes, &[0; 20]].concat();
        let _ = Index::parse(Sha1, &file);
        let _ = Index::parse(Sha256, &file);
    }
}
