//! What a hostile command tries from inside, one sentence for each claim, in every way to build the fence.
//!
//! A row names the line of the receipt that it belongs to. Where the receipt says that the line holds, the attack must fail; where
//! it says that it does not, the attack must succeed, so that a receipt is neither too bright nor too dark. Success is judged
//! outside: by a secret that comes out, a file that changes, a process that ends, a connection that arrives. Every attack is also
//! run without a fence and must succeed there, and one that breaks is told from one that is refused: what never works shows
//! nothing. All of it runs for root, who starts a fence for somebody else, and for an ordinary user.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod denied;
mod descriptors;
mod environment;
mod files;
mod git;
mod ground;
mod kernel;
mod namespaces;
mod network;
mod proc;
mod processes;
mod protected;
mod row;
mod section9;
mod sessions;
mod sockets;
mod streams;
mod suite;
mod terminal;
mod tree;

use std::collections::BTreeSet;

use ground::Ground;
use row::{READABLE, Row, SECRET, Sign, Thing, python};
use suite::{Backend, Receipt, Topic, every_fence, fence, output};

static TOPICS: &[&Topic] = &[
    &denied::TOPIC,
    &descriptors::TOPIC,
    &environment::TOPIC,
    &files::TOPIC,
    &git::TOPIC,
    &kernel::TOPIC,
    &namespaces::TOPIC,
    &network::TOPIC,
    &proc::TOPIC,
    &processes::TOPIC,
    &protected::TOPIC,
    &section9::TOPIC,
    &sessions::TOPIC,
    &sockets::TOPIC,
];

/// At least two hundred claims, each in a sentence of its own.
#[test]
fn each_claim_has_its_sentence() {
    let rows = || TOPICS.iter().flat_map(|topic| topic.rows);
    let sentences: BTreeSet<&str> = rows().map(|row| row.says).chain(terminal::WAYS.iter().map(|way| way.0)).collect();
    assert_eq!(sentences.len(), rows().count() + terminal::WAYS.len(), "a sentence stands twice");
    assert!(sentences.len() >= 200, "{}", sentences.len());
    assert!(sentences.iter().all(|sentence| sentence.contains(' ') && !sentence.ends_with('.')));
}

static GUARDED: &[Row] = &[python(READABLE, "", "", Sign::Secret)
    .files(&[Thing::File("here/.env", SECRET), Thing::File("here/infra/main", "old\n")])];

/// What each way to build a fence cannot carry, for a project with something denied and something protected in it. The receipt
/// says the same. Of what is denied, Landlock alone misses only what is in `/proc`.
#[test]
fn what_each_fence_does_not_carry() {
    every_fence(|backend, who| {
        let brokered = ["denied-later", "replaced", "sockets-later"];
        let with_a_view = ["denied-later", "protected-later", "replaced", "sockets-later"];
        let in_a_container = ["denied-later", "deny", "protected-later", "replaced", "sockets-later"];
        let without = [
            "denied-later",
            "denied-names",
            "deny",
            "metadata",
            "others",
            "protect",
            "protected-later",
            "second-wall",
            "seen",
        ];
        let rooted = ["denied-later", "denied-names", "metadata", "others", "protect", "protected-later", "seen"];
        let expected: &[&str] = match backend {
            // The broker is the native fence's own.
            Backend::Native => &brokered,
            Backend::Bwrap => &with_a_view,
            Backend::Landlock => &without,
            Backend::Docker | Backend::Podman => &in_a_container,
            Backend::Chroot => &rooted,
        };
        let ground = Ground::new(GUARDED);
        let seen = output(&ground, &fence(&ground, backend, who), &["true"]);
        let said = seen.stderr.escape_ascii().to_string().replace("\\n", "\n");
        let receipt = Receipt::from(&said);
        let short: BTreeSet<&str> = receipt.lines().filter(|(.., holds)| !holds).map(|(kind, ..)| kind).collect();
        assert_eq!(short.into_iter().collect::<Vec<_>>(), expected, "[{}, {who:?}]", backend.word());
        let mut denied = receipt.lines().filter(|(kind, _, holds)| *kind == "deny" && !holds);
        assert!(denied.all(|(_, words, _)| words.starts_with("deny /proc")), "{said}");
        // Every line that rows lean on is there.
        let kinds: BTreeSet<&str> = receipt.lines().map(|(kind, ..)| kind).collect();
        for row in TOPICS.iter().flat_map(|topic| topic.rows) {
            if let row::Line::Kind(kind) = row.line {
                assert!(kinds.contains(kind), "{kind}: {}", row.says);
            }
        }
    });
}
