//! An oracle by execution for everything that the user's own git runs, contacts or writes because of what a session left.
//!
//! A sequence of git and file operations is made at random inside a session: ordinary work, and plants of every kind. Then the user's own
//! programs run outside, as users, prompts and editors run them, at the top, in subdirectories, in every work tree and nested repository.
//! The sequence fails if a program of the agent's ran (each plant has a canary file of its own), if an address was contacted (a listener on
//! loopback, and the user's ssh), or if a file outside of the project was touched. A failing sequence is made smaller and printed with its
//! seed.
//!
//! Each kind of plant is also laid without a sandbox, where it must fire: one that does not shows nothing.
//!
//! `cargo xtask oracle [SEQUENCES [SEED]]` tries more, and `cargo xtask oracle plants [TEXT]` each kind of plant with this text in its name by
//! itself, in a session.
//!
//! To see that the oracle finds a fault, take its fix out (do not commit that) and run the plants of its number: some of them must be reported.
//! Others of the same number may be held by a second rule.
//!
//! | finding | what to take out | command | reported |
//! | --- | --- | --- | --- |
//! | A2 | `git_files/content.rs`, `judge`: every name in a `.git` file is accepted (`is_known` is true) | `oracle plants a2` | a git directory in a cache that stays |
//! | A2 | `git_files/local_address.rs`: `leads_to_own` returns false | `oracle plants a2` | the remotes in a cache that stays |
//! | A5 | `ringfence_git::address`, `parse`: `@[` and `%` are accepted; `relative_to_remote` returns `None` | `oracle plants remote.origin.url` | addresses with `%40`, with `@[`, and the submodule's with `../../` |
//!
//! A session's home is gone when the user's git runs; what is in a cache of its packs stays, and the plants of A2 are in both. Root's git does not
//! push to a repository that another user owns, and a session of root runs as another user: the remotes of A2 are reported as `Ordinary` only.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod ground;
mod plants;
mod random;
mod sequence;
mod victims;
mod work;

use std::fmt::Write as _;

use ringfence_testkit::report_skip;

use self::ground::{Ground, User};
use self::plants::{PLANTS, Plant};
use self::random::Random;
use self::sequence::{Sequence, Verdict};

/// As many sequences as a build has time for.
const BOUNDED: u64 = 1;

/// Where `cargo xtask oracle` says how many sequences, and from which seed.
const LONG: &str = "RINGFENCE_ORACLE";

/// Where it says which plants are laid, each by itself.
const NAMED: &str = "RINGFENCE_ORACLE_PLANTS";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn users() -> &'static [User] {
    if is_root() { &[User::Caller, User::Ordinary] } else { &[User::Caller] }
}

/// Tries sequences from a seed on, alternately as each user. The first that fails is made smaller and reported.
fn sequences(from: u64, count: u64) {
    if !is_root() {
        report_skip("the oracle as another user: the tests do not run as root");
    }
    let grounds: Vec<Ground> = users().iter().map(|user| Ground::new(*user)).collect();
    let mut failed = Vec::new();
    for seed in from..from + count {
        let ground = &grounds[usize::try_from(seed).unwrap_or(0) % grounds.len()];
        let sequence = Sequence::random(&mut Random::new(seed));
        let verdict = sequence.run(ground);
        if let Verdict::Failed(found) = verdict {
            tell(&format!("FAILED: seed {seed}: {found}"));
            failed.push(format!("seed {seed}: {found}\n{}", sequence.smaller(ground)));
        }
        tell(&format!("sequence {seed}"));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// A1, A2, A4, A5, A9, A10, J1-J6 by chance.
#[test]
fn nothing_of_the_agents_runs_outside_after_a_random_sequence() {
    sequences(1, BOUNDED);
}

/// Each plant by itself that has this text in its name, as each user.
fn each_plant_by_itself(named: &str) {
    let chosen: Vec<&'static Plant> = PLANTS.iter().filter(|plant| plant.name.contains(named)).collect();
    assert!(!chosen.is_empty(), "no plant has {named:?} in its name");
    let mut found = String::new();
    for user in users() {
        let ground = Ground::new(*user);
        for plant in &chosen {
            if let Verdict::Failed(fired) = Sequence::only(plant).inside(&ground) {
                tell(&format!("FAILED: {} as {user:?}: {fired}", plant.name));
                let _ = writeln!(found, "{} as {user:?}: {fired}", plant.name);
            }
        }
        tell(&format!("{} plants, each by itself, as {user:?}", chosen.len()));
    }
    assert!(found.is_empty(), "each by itself:\n{found}");
}

fn tell(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("oracle: {text}\n").as_bytes());
}

/// The same, as long as `cargo xtask oracle` says: first each plant by itself, then sequences.
#[test]
fn nothing_of_the_agents_runs_outside_after_many_random_sequences() {
    let (named, long) = (std::env::var(NAMED).ok(), std::env::var(LONG).ok());
    if let Some(named) = &named {
        each_plant_by_itself(named);
    }
    if let Some(long) = &long {
        let (count, seed) = long.split_once(',').unwrap_or((long, "1"));
        sequences(seed.parse().unwrap(), count.parse().unwrap());
    }
    if named.is_none() && long.is_none() {
        // One more than the bounded test has, so that this one is never empty.
        sequences(BOUNDED + 1, 1);
    }
}

/// Every kind of plant fires where nothing keeps it from it. What the installed git or git-lfs does not know is listed as not live, and
/// whether that is so is asked, too.
#[test]
fn each_plant_fires_without_a_sandbox() {
    let ground = Ground::in_memory(*users().last().unwrap());
    let mut wrong = String::new();
    for plant in PLANTS {
        let is_live = plant.live.is_live(&ground);
        let fired = Sequence::only(plant).control(&ground);
        if !is_live {
            report_skip(&format!("the plant {:?}: {}", plant.name, plant.live.reason()));
        }
        match (fired, is_live) {
            (Verdict::Failed(_), true) | (Verdict::Held(_), false) => {}
            (Verdict::Failed(found), false) => {
                wrong += &format!("{}: is listed as not live, and fires: {found}\n", plant.name)
            }
            (Verdict::Held(said), true) => wrong += &format!("{}: shows nothing:\n{said}\n", plant.name),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
