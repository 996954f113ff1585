//! A sequence: what an agent does in one session or two, and what the user does afterwards.

use std::fmt::Write as _;

use crate::ground::{Ground, differences, shown};
use crate::plants::{GIT_DIRECTORIES, METHODS, PLANTS, PRELUDE, PROFILES, Plant};
use crate::random::Random;
use crate::victims;
use crate::work::{MOVES, PLACES, WORK};

/// As often a sequence is run to make it smaller.
const MOST_RUNS: u32 = 60;

/// What the agent does at one time.
#[derive(Debug, Clone)]
struct Operation {
    /// Its canary is called by it.
    number: usize,
    /// The plant's name, or nothing for ordinary work.
    plant: Option<&'static Plant>,
    script: String,
}

/// How the session is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// In this directory of the project.
    In(&'static str),
    /// In a work tree of its own.
    WorkTree,
    /// What is written waits for a review, and all of it is applied.
    Review,
}

const STARTS: &[Start] = &[
    Start::In("."),
    Start::In("."),
    Start::In("."),
    Start::In("src"),
    Start::In("wt"),
    Start::In("nested"),
    Start::In("lib/dep"),
    Start::WorkTree,
    Start::Review,
];

#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    profile: &'static str,
    start: Start,
    operations: Vec<Operation>,
    /// The operations from here on are made in a second session.
    second: usize,
    /// The order of the user's steps.
    order: u64,
}

/// What came out of a sequence.
pub(crate) enum Verdict {
    /// Nothing; with what all programs said.
    Held(String),
    /// Canaries, addresses, files.
    Failed(String),
}

impl Verdict {
    fn of(found: &[String], said: String) -> Self {
        if found.is_empty() { Self::Held(said) } else { Self::Failed(found.join(", ")) }
    }
}

impl Sequence {
    /// Plants among ordinary work.
    pub(crate) fn random(random: &mut Random) -> Self {
        let start = *random.pick(STARTS);
        let profile = random.pick(PROFILES).0;
        let count = 12 + random.below(16);
        let mut operations: Vec<Operation> = Vec::new();
        for number in 0..count {
            operations.push(match random.below(10) {
                0..6 => plant(random, number, profile, start),
                6..8 => Operation { number, plant: None, script: numbered(random.pick::<&str>(WORK), number) },
                _ => moved(random, number),
            });
        }
        let second = if random.one_in(3) { random.below(count) } else { count };
        Self { profile, start, operations, second, order: random.below(1 << 30) as u64 }
    }

    /// One plant, with the first of all choices.
    pub(crate) fn only(plant: &'static Plant) -> Self {
        let script = filled(plant.attack, 0, GIT_DIRECTORIES[0], METHODS[0]);
        let operation = Operation { number: 0, plant: Some(plant), script };
        Self { profile: plant.profile, start: Start::In("."), operations: vec![operation], second: 1, order: 0 }
    }

    fn prepare(&self, ground: &Ground) {
        ground.restore();
        let profile = PROFILES.iter().find(|(name, _)| *name == self.profile).unwrap().1;
        let output = ground.shell(&ground.project(), &format!("set -e\n{profile}"));
        assert!(output.status.success(), "{}", shown(&output));
    }

    /// The agent's script for some of the operations: each in a shell of its own, so that it holds nothing up.
    fn script(&self, ground: &Ground, operations: &[Operation], prelude: &str) -> String {
        let mut script = prelude.to_owned();
        for operation in operations {
            let _ = writeln!(script, "(\n{}\n) < /dev/null", operation.script);
        }
        // Whether the last one failed says nothing.
        script += "exit 0\n";
        let port = ground.port().to_string();
        script.replace("@LIVE@", ground.live().to_str().unwrap()).replace("@PORT@", &port)
    }

    /// Everything in a session, then all of the user's steps.
    pub(crate) fn run(&self, ground: &Ground) -> Verdict {
        self.fenced(ground, &victims::script(ground, &mut Random::new(self.order)))
    }

    /// Everything in a session, then the steps by which the plants fire.
    pub(crate) fn inside(&self, ground: &Ground) -> Verdict {
        self.fenced(ground, &self.firing_steps(ground))
    }

    fn fenced(&self, ground: &Ground, steps: &str) -> Verdict {
        self.prepare(ground);
        let mut said = String::new();
        let mut report = String::new();
        for operations in [&self.operations[..self.second], &self.operations[self.second..]] {
            if operations.is_empty() {
                continue;
            }
            let output = self.session(ground, operations);
            for line in shown(&output).lines().filter(|line| line.starts_with("ringfence: git:")) {
                let _ = writeln!(report, "{line}");
            }
            said += &shown(&output);
            // A session that did not start shows nothing.
            assert!(output.status.success(), "the session did not run: {said}");
        }
        let before = ground.outside();
        let mut found: Vec<String> = ground.canaries().iter().map(|name| format!("{name} (inside)")).collect();
        let output = ground.on_terminal(steps);
        said += &shown(&output);
        assert!(output.status.code() != Some(124), "the user's steps took too long: {said}");
        let fired = ground.canaries().into_iter().filter(|canary| !self.is_known(canary, &report));
        let changed = differences(&before, &ground.outside());
        found.extend(fired.chain(changed).chain(ground.planted()));
        match found.is_empty() {
            true => Verdict::Held(said),
            false => Verdict::Failed(format!("{}\nreported: {report}", found.join(", "))),
        }
    }

    /// The user's steps by which the plants fire.
    fn firing_steps(&self, ground: &Ground) -> String {
        let plants = self.operations.iter().filter_map(|operation| operation.plant);
        let fires: Vec<(String, &str)> =
            plants.flat_map(|plant| plant.fires).map(|(dir, step)| (numbered(dir, 0), *step)).collect();
        let fires: Vec<(&str, &str)> = fires.iter().map(|(dir, step)| (dir.as_str(), *step)).collect();
        victims::script_of(ground, &fires)
    }

    fn session(&self, ground: &Ground, operations: &[Operation]) -> std::process::Output {
        let project = ground.project();
        match self.start {
            Start::In(dir) => ground.session(&project.join(dir), &[], &self.script(ground, operations, PRELUDE)),
            Start::WorkTree => {
                let prelude = format!("PLACE=$PWD\n{PRELUDE}");
                ground.session(&project, &["--worktree"], &self.script(ground, operations, &prelude))
            }
            Start::Review => {
                let mut output = ground.session(&project, &["--review"], &self.script(ground, operations, PRELUDE));
                // It names what the repositories gain, which the end of the session cannot know yet.
                let applied = ground.ringfence(&["apply"]);
                output.stderr.extend([applied.stdout, applied.stderr].concat());
                output
            }
        }
    }

    /// Did the end of the session name what this canary is about?
    fn is_known(&self, canary: &str, report: &str) -> bool {
        self.operations.iter().any(|operation| {
            let Some(plant) = operation.plant else { return false };
            let is_its = canary == format!("c{}", operation.number)
                || canary.starts_with("address")
                    && (operation.script.contains("@PORT@") || operation.script.contains("evil.example"));
            is_its && plant.named.is_some_and(|named| report.contains(named))
        })
    }

    /// The plant without a sandbox, then the steps by which it fires.
    pub(crate) fn control(&self, ground: &Ground) -> Verdict {
        self.prepare(ground);
        let before = ground.outside();
        let prelude = format!("T=@LIVE@/tmp CONTROL_CACHE=@LIVE@/home/.cache/ringfence/project/go-build\n{PRELUDE}");
        let planted = ground.shell(&ground.project(), &self.script(ground, &self.operations, &prelude));
        // The attack's own canary is none.
        let early = ground.canaries();
        let clear = ground.shell(&ground.project(), &format!("rm -f {}/canary/*", ground.live().display()));
        let output = ground.on_terminal(&self.firing_steps(ground));
        let mut found = ground.canaries();
        found.extend(differences(&before, &ground.outside()));
        Verdict::of(&found, format!("{early:?}\n{}{}{}", shown(&planted), shown(&clear), shown(&output)))
    }

    /// The same without what it does not need to fail.
    pub(crate) fn smaller(&self, ground: &Ground) -> String {
        let mut smallest = self.clone();
        let mut size = smallest.operations.len().div_ceil(2);
        let mut runs = 0;
        while size > 0 && runs < MOST_RUNS {
            let mut at = 0;
            while at < smallest.operations.len() {
                runs += 1;
                let mut less = smallest.clone();
                let end = (at + size).min(less.operations.len());
                less.operations.drain(at..end);
                let removed_before = smallest.second.saturating_sub(at).min(end - at);
                less.second = smallest.second - removed_before;
                if !less.operations.is_empty() && matches!(less.run(ground), Verdict::Failed(_)) {
                    smallest = less;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        let mut text = format!(
            "the smallest that fails, started {:?} with the settings {:?}:\n",
            smallest.start, smallest.profile
        );
        for (number, operation) in smallest.operations.iter().enumerate() {
            let name = operation.plant.map_or("work", |plant| plant.name);
            let session = if number < smallest.second { "first" } else { "second" };
            let _ = writeln!(text, "# {name} ({session} session)\n{}", operation.script);
        }
        match smallest.run(ground) {
            Verdict::Failed(found) => text + &found,
            Verdict::Held(_) => text + "it does not fail each time",
        }
    }
}

fn plant(random: &mut Random, number: usize, profile: &str, start: Start) -> Operation {
    // Plants of the user's settings are of no use with others.
    let fitting: Vec<&'static Plant> =
        PLANTS.iter().filter(|plant| plant.profile == "plain" || plant.profile == profile).collect();
    let plant = *random.pick(&fitting);
    let git_dir = if random.one_in(2) { GIT_DIRECTORIES[0] } else { random.pick::<&str>(GIT_DIRECTORIES) };
    // In a work tree of its own `.git` is a file.
    let git_dir = if start == Start::WorkTree { format!("$L/project/{git_dir}") } else { git_dir.to_string() };
    let script = filled(plant.attack, number, &git_dir, random.pick::<&str>(METHODS));
    Operation { number, plant: Some(plant), script }
}

fn moved(random: &mut Random, number: usize) -> Operation {
    let line =
        random.pick(MOVES).replace("@A@", random.pick::<&str>(PLACES)).replace("@B@", random.pick::<&str>(PLACES));
    Operation { number, plant: None, script: filled(&line, number, "", "") }
}

fn numbered(text: &str, number: usize) -> String {
    text.replace("@N@", &number.to_string())
}

fn filled(text: &str, number: usize, git_dir: &str, method: &str) -> String {
    numbered(text, number)
        .replace("@C@", &format!("@LIVE@/canary/c{number}"))
        .replace("@G@", git_dir)
        .replace("@M@", method)
}
