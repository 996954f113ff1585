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
//! `cargo xtask oracle [SEQUENCES [SEED]]` tries more.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod ground;
mod plants;
mod random;
mod sequence;
mod victims;
mod work;

use ringfence_testkit::report_skip;

use self::ground::{Ground, User};
use self::plants::{PLANTS, Plant};
use self::random::Random;
use self::sequence::{Sequence, Verdict};

/// As many sequences as a build has time for.
const BOUNDED: u64 = 1;

/// Where `cargo xtask oracle` says how many sequences, and from which seed.
const LONG: &str = "RINGFENCE_ORACLE";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn users() -> &'static [User] {
    if is_root() { &[User::Caller, User::Ordinary] } else { &[User::Caller] }
}

/// Tries sequences from a seed on, alternately as each user. The first that fails is made smaller and reported.
fn sequences(from: u64, count: u64, tell: impl Fn(u64)) {
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
            failed.push(format!("seed {seed}: {found}\n{}", sequence.smaller(ground)));
        }
        tell(seed);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// A1, A2, A4, A5, A9, A10, J1-J6 by chance.
#[test]
fn nothing_of_the_agents_runs_outside_after_a_random_sequence() {
    sequences(1, BOUNDED, |_| ());
}

/// The same, as long as `cargo xtask oracle` says: first each plant by itself, then sequences.
#[test]
fn nothing_of_the_agents_runs_outside_after_many_random_sequences() {
    let Ok(long) = std::env::var(LONG) else {
        // One more than the bounded test has, so that this one is never empty.
        return sequences(BOUNDED + 1, 1, |_| ());
    };
    let (count, seed) = long.split_once(',').unwrap_or((&long, "1"));
    let (count, seed): (u64, u64) = (count.parse().unwrap(), seed.parse().unwrap());
    let tell = |text: String| {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "oracle: {text}");
    };
    for user in users() {
        let ground = Ground::new(*user);
        let alone = |plant: &'static Plant| match Sequence::only(plant).inside(&ground) {
            Verdict::Failed(found) => Some(format!("{}: {found}", plant.name)),
            Verdict::Held(_) => None,
        };
        let found: Vec<String> = PLANTS.iter().filter_map(alone).collect();
        assert!(found.is_empty(), "as {user:?}, each by itself:\n{}", found.join("\n"));
        tell(format!("{} plants, each by itself, as {user:?}", PLANTS.len()));
    }
    sequences(seed, count, |seed| tell(format!("sequence {seed}")));
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
