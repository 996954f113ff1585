//! The history of the fixtures, newest first (`git log`): last, a merge of mode and side, 5, 4, 3, 2, 1; side follows 2.

use std::cell::RefCell;
use std::rc::Rc;

use miniz_oxide::deflate::compress_to_vec_zlib;

use super::*;
use crate::object::id_of;
use ObjectFormat::{Sha1, Sha256};

const OFS: (&[u8], &[u8]) = (include_bytes!("../pack/fixtures/ofs.idx"), include_bytes!("../pack/fixtures/ofs.pack"));
const REF: (&[u8], &[u8]) = (include_bytes!("../pack/fixtures/ref.idx"), include_bytes!("../pack/fixtures/ref.pack"));
const BY_SHA256: (&[u8], &[u8]) =
    (include_bytes!("../pack/fixtures/sha256.idx"), include_bytes!("../pack/fixtures/sha256.pack"));

const LAST: &str = "d386417107fdba2951ceada45deaec688bdf580f";
const MERGE: &str = "09aa466b08ec2bad14355bfa5323ac0e8fbda54f";
const MODE: &str = "d0f34faf9d268302b53e0244fe5e8ab409d2102f";
const SIDE: &str = "0f71dd008d736d03ef371c6ecb67ad571f4965fe";
const SIDE_TAG: &str = "91eba291953168f7a90d2cd7a872dc8bc8507853";
const THIRD: &str = "2bb3d88d38b7ef8058bd526429521845d43da67f";
const THIRD_SUB: &str = "1933ad86630f7856866de2dcfd8cca04fb6792c4";
const FIRST: &str = "ed4ea3c96d0a0757fcea63c9106d71843d86a417";
const NEWEST_LONG: &str = "09c3e765a96067139ff6c8fb900e3d649acba092";
const OLDEST_LONG: &str = "26e04c7192afec03c83183fa8ae605496f15d88d";
const SHORT: &str = "5626abf0f72e58d7a153368ba57db4c673c0e171";
const ONLY: &str = "2299c37978265a95cbe835a4b0f0bbf15aad5549";
const LINK: &str = "eba61a783dede5520e03655a7239b8c6062740a8";

/// Loose objects by id, packs, and which loose objects were asked for.
#[derive(Debug, Clone, Default)]
struct TestSource {
    loose: HashMap<ObjectId, Vec<u8>>,
    packs: Vec<(Vec<u8>, Vec<u8>)>,
    asked: Rc<RefCell<Vec<ObjectId>>>,
}

impl ObjectSource for TestSource {
    type File = Vec<u8>;

    fn loose(&self, id: &ObjectId) -> Option<Vec<u8>> {
        self.asked.borrow_mut().push(*id);
        self.loose.get(id).cloned()
    }

    fn packs(&self) -> Vec<PackFiles<Vec<u8>>> {
        self.packs.iter().cloned().map(|(index, pack)| PackFiles { index, pack }).collect()
    }
}

impl TestSource {
    fn packed(packs: &[(&[u8], &[u8])]) -> Self {
        let packs = packs.iter().map(|(index, pack)| (index.to_vec(), pack.to_vec())).collect();
        Self { packs, ..Self::default() }
    }

    /// Every object of the fixture, as a loose one.
    fn unpacked() -> Self {
        let mut source = Self::default();
        let mut history = History::open(Sha1, Self::packed(&[OFS]));
        let ids = OFS.0[8 + 1024..].chunks(20).take(39);
        for id in ids.map(|bytes| ObjectId::from_bytes(Sha1, bytes).unwrap()) {
            let object = history.read(&id, &mut budget()).unwrap();
            source.add(object.kind, &object.content);
        }
        source
    }

    fn add(&mut self, kind: ObjectKind, content: &[u8]) -> ObjectId {
        let id = id_of(Sha1, kind, content).unwrap();
        let head = format!("{} {}\0", kind.word(), content.len());
        self.loose.insert(id, compress_to_vec_zlib(&[head.as_bytes(), content].concat(), 1));
        id
    }
}

fn budget() -> ReadBudget {
    ReadBudget { objects: 1000, bytes: 1 << 20 }
}

fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

fn version<'p>(path: &'p str, mode: EntryMode, hex: &str) -> FileVersion<'p> {
    FileVersion { path: path.as_bytes(), mode, id: id(hex) }
}

fn sources() -> [TestSource; 4] {
    [
        TestSource::packed(&[OFS]),
        TestSource::packed(&[REF]),
        TestSource::packed(&[BY_SHA256, OFS, REF]),
        TestSource::unpacked(),
    ]
}

#[track_caller]
fn check(tips: &[&str], wanted: &FileVersion<'_>, expected: HistoryAnswer) {
    let tips: Vec<ObjectId> = tips.iter().map(|tip| id(tip)).collect();
    for source in sources() {
        let mut history = History::open(Sha1, source);
        for _ in 0..2 {
            assert_eq!(history.find(&tips, wanted, &mut budget()), expected);
        }
    }
}

#[test]
fn versions_are_found_where_they_are() {
    use EntryMode::{Directory, Executable, Regular, SymbolicLink};
    let found = |commit| HistoryAnswer::InCommit(id(commit));
    check(&[LAST], &version("dir/sub/long", Regular, NEWEST_LONG), found(LAST));
    check(&[FIRST, LAST], &version("dir/sub/long", Regular, NEWEST_LONG), found(LAST));
    check(&[LAST], &version("dir/sub/long", Regular, OLDEST_LONG), found(FIRST));
    check(&[LAST], &version("short", Executable, SHORT), found(MERGE));
    check(&[LAST], &version("link", SymbolicLink, LINK), found(LAST));
    check(&[MODE], &version("link", SymbolicLink, LINK), found(MODE));
    check(&[SIDE_TAG], &version("dir/only", Regular, ONLY), found(SIDE));
    check(&[LAST], &version("dir/sub", Directory, THIRD_SUB), found(THIRD));
}

#[test]
fn what_is_not_reachable_or_not_the_same_is_absent() {
    use EntryMode::{Executable, Regular, SymbolicLink};
    for (tip, path, mode, blob) in [
        (FIRST, "dir/sub/long", Regular, NEWEST_LONG),
        (MODE, "dir/only", Regular, ONLY),
        (LAST, "dir/sub/long", Executable, NEWEST_LONG),
        (LAST, "dir/sub/long", Regular, SHORT),
        (LAST, "dir/sub/lon", Regular, NEWEST_LONG),
        (LAST, "dir/sub/long/x", Regular, NEWEST_LONG),
        (LAST, "long", Regular, NEWEST_LONG),
        (LAST, "dir//sub/long", Regular, NEWEST_LONG),
        (LAST, "", Regular, NEWEST_LONG),
        (SIDE, "link", SymbolicLink, LINK),
        (SIDE, "short", Executable, SHORT),
        // A blob, and a tree, are no history.
        (NEWEST_LONG, "dir/sub/long", Regular, NEWEST_LONG),
        ("ab29ec65a6704cd1f6ad2dcba561b02f9a8b33e6", "dir/sub/long", Regular, NEWEST_LONG),
    ] {
        check(&[tip], &version(path, mode, blob), HistoryAnswer::Absent);
    }
    check(&[], &version("short", Regular, SHORT), HistoryAnswer::Absent);
}

#[test]
fn sha256() {
    let mut history = History::open(Sha256, TestSource::packed(&[OFS, BY_SHA256]));
    let tag = id("aaa8d03f73f12e2146f0ab99830c29cd8b3326b94e990d6c9b847793c9e4ce24");
    let tip = id("764b17de2a6365a8e80512d36aa91ae02f8606e817e9c9381f1df63ae425ad65");
    let long =
        version("dir/sub/long", EntryMode::Regular, "8295f37ddae23abd55575f619d85e4ff312ded0b34fc6522a5a6578429e9cc94");
    assert_eq!(history.find(&[tag, tip], &long, &mut budget()), HistoryAnswer::InCommit(tip));
    assert_eq!(history.find(&[tag], &long, &mut budget()), HistoryAnswer::Absent);
    assert_eq!(history.entry_at(&tip, b"dir/sub/long", &mut budget()), Ok(Some((long.mode, long.id))));
}

#[test]
fn entries_at_a_path() {
    let mut history = History::open(Sha1, TestSource::packed(&[OFS]));
    let mut at = |tip, path: &str| history.entry_at(&id(tip), path.as_bytes(), &mut budget()).unwrap();
    assert_eq!(at(LAST, "dir/sub/long"), Some((EntryMode::Regular, id(NEWEST_LONG))));
    assert_eq!(at(MERGE, "short"), Some((EntryMode::Executable, id(SHORT))));
    assert_eq!(at(SIDE_TAG, "short"), Some((EntryMode::Regular, id(SHORT))));
    assert_eq!(at(LAST, "dir/sub").map(|(mode, _)| mode), Some(EntryMode::Directory));
    for path in ["short", "", "dir/", "dir/sub/long/x", "nothing/x"] {
        assert_eq!(at(LAST, path), None, "{path}");
    }
}

#[test]
fn the_usual_case_reads_little() {
    let spent = |wanted: &FileVersion<'_>| {
        let mut left = budget();
        History::open(Sha1, TestSource::packed(&[OFS])).find(&[id(LAST)], wanted, &mut left);
        budget().objects - left.objects
    };
    // The commit, and three trees; the tree at the top is a delta of another.
    assert_eq!(spent(&version("dir/sub/long", EntryMode::Regular, NEWEST_LONG)), 6);
    // Nine commits have six trees at the top, one of them a delta, and no directory of this name.
    assert!(spent(&version("nothing/here", EntryMode::Regular, SHORT)) <= 9 + 9 + 2);
    // A subtree that several commits have is read once.
    let mut source = TestSource::default();
    let sub = source.add(ObjectKind::Tree, &[b"100644 a\0".as_slice(), &[1; 20]].concat());
    let mut parent = None;
    for number in 0..50 {
        let entries =
            [b"40000 d\0".as_slice(), sub.as_bytes(), format!("100644 f{number}\0").as_bytes(), &[2; 20]].concat();
        let tree = source.add(ObjectKind::Tree, &entries);
        let parents = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
        parent = Some(source.add(ObjectKind::Commit, format!("tree {tree}\n{parents}author x\n").as_bytes()));
    }
    let asked = source.asked.clone();
    let mut history = History::open(Sha1, source);
    let wanted = version("d/a", EntryMode::Regular, SHORT);
    assert_eq!(history.find(&[parent.unwrap()], &wanted, &mut budget()), HistoryAnswer::Absent);
    assert_eq!(asked.borrow().iter().filter(|asked| **asked == sub).count(), 1);
}

#[test]
fn a_search_that_sees_only_a_part_says_so() {
    let wanted = version("dir/sub/long", EntryMode::Regular, SHORT);
    let whole = TestSource::unpacked();
    let search = |without: &str, changed: Option<&[u8]>| {
        let mut source = whole.clone();
        source.loose.remove(&id(without));
        source.loose.extend(changed.map(|file| (id(without), file.to_vec())));
        History::open(Sha1, source).find(&[id(LAST)], &wanted, &mut budget())
    };
    assert_eq!(search("0000000000000000000000000000000000000000", None), HistoryAnswer::Absent);
    for missing in [LAST, FIRST, SIDE, "48e6ea99a19c02478ac8e9ef721f879da320f422"] {
        assert_eq!(search(missing, None), HistoryAnswer::Unknown(Incomplete::Missing(id(missing))));
        let other = &whole.loose[&id(SHORT)];
        for file in [b"".as_slice(), b"x", other] {
            assert_eq!(search(missing, Some(file)), HistoryAnswer::Unknown(Incomplete::Damaged(id(missing))));
        }
    }
    for objects in 0..15 {
        let mut budget = ReadBudget { objects, ..budget() };
        let found = History::open(Sha1, whole.clone()).find(&[id(LAST)], &wanted, &mut budget);
        assert_eq!(found, HistoryAnswer::Unknown(Incomplete::Budget), "{objects}");
    }
    let newest = version("dir/sub/long", EntryMode::Regular, NEWEST_LONG);
    let mut source = whole.clone();
    source.loose.remove(&id(FIRST));
    assert_eq!(
        History::open(Sha1, source).find(&[id(LAST)], &newest, &mut budget()),
        HistoryAnswer::InCommit(id(LAST))
    );
}

/// An attacker writes a commit with the agent's files under the id of the user's commit.
#[test]
fn a_forged_object_is_not_believed() {
    let mut source = TestSource::unpacked();
    let tree = source.add(ObjectKind::Tree, &[b"100755 short\0".as_slice(), &[9; 20]].concat());
    let forged = source.add(ObjectKind::Commit, format!("tree {tree}\nauthor x\n").as_bytes());
    let evil = FileVersion { path: b"short", mode: EntryMode::Executable, id: ObjectId::Sha1([9; 20]) };
    let find = |source: &TestSource, tip| History::open(Sha1, source.clone()).find(&[tip], &evil, &mut budget());
    assert_eq!(find(&source, forged), HistoryAnswer::InCommit(forged));
    assert_eq!(find(&source, id(LAST)), HistoryAnswer::Absent);
    let file = source.loose[&forged].clone();
    source.loose.insert(id(LAST), file);
    assert_eq!(find(&source, id(LAST)), HistoryAnswer::Unknown(Incomplete::Damaged(id(LAST))));
    // The undamaged object in a pack is used.
    source.packs = TestSource::packed(&[OFS]).packs;
    assert_eq!(find(&source, id(LAST)), HistoryAnswer::Absent);
}

/// A damaged pack hides what it has, and the loose objects and other packs are used.
#[test]
fn a_damaged_pack_is_passed_over() {
    let mut damaged = TestSource::packed(&[OFS]).packs;
    for byte in damaged[0].1.iter_mut().skip(12) {
        *byte = 0;
    }
    damaged.push((b"no index".to_vec(), b"no pack".to_vec()));
    let wanted = version("dir/sub/long", EntryMode::Regular, OLDEST_LONG);
    let find = |source| History::open(Sha1, source).find(&[id(LAST)], &wanted, &mut budget());
    let only = TestSource { packs: damaged.clone(), ..TestSource::default() };
    assert_eq!(find(only), HistoryAnswer::Unknown(Incomplete::Damaged(id(LAST))));
    let loose = TestSource { packs: damaged.clone(), ..TestSource::unpacked() };
    assert_eq!(find(loose), HistoryAnswer::InCommit(id(FIRST)));
    damaged.extend(TestSource::packed(&[REF]).packs);
    assert_eq!(find(TestSource { packs: damaged, ..TestSource::default() }), HistoryAnswer::InCommit(id(FIRST)));
}
