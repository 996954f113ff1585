//! Shows that every layer does what `decide` says, for policies, trees and deeds by chance.
//!
//! `agree run STATE SAVE SEED CASES DEEDS LAYER...` tries so many cases, from a seed on, or with `CASES` as `1000-pairs` until so
//! many deeds were judged in each fence; what comes out otherwise than it must is made smaller, shown, and saved in SAVE (`-`:
//! nowhere). `agree replay STATE LAYER... -- FILE...` tries saved cases.
//! `agree show SEED DEEDS` prints a case. `agree broken STATE BUG FILE...` breaks the fence first, and succeeds if that shows;
//! `agree chance STATE BUG SEED CASES DEEDS` does so in cases by chance.

mod bugs;
mod case;
mod properties;
mod random;
mod rendered;
mod trial;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::AbsPath;

use case::Case;
use trial::{Found, Layer, World, shrunk};

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let text: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or("")).collect();
    let ended = match text.as_slice() {
        [ringfence_session::verify::COMMAND] => return ExitCode::from(ringfence_session::verify::run()),
        [ringfence_session::inside::COMMAND, ..] => return ExitCode::from(ringfence_session::inside::run(&words[1..])),
        ["run", state, save, seed, cases, deeds, layers @ ..] => run(state, save, [seed, cases, deeds], layers),
        ["show", seed, deeds] => show(seed, deeds),
        ["replay", state, rest @ ..] => replay(state, rest),
        ["chance", state, bug, seed, cases, deeds] => chance(state, bug, [seed, cases, deeds]),
        ["broken", state, bug, files @ ..] => broken(state, bug, files),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(cause) => {
            say(&format!("agree: {cause:?}"));
            ExitCode::from(125)
        }
    }
}

#[expect(clippy::print_stdout, reason = "whoever started it reads what was found")]
fn say(text: &str) {
    println!("{text}");
}

fn layers(words: &[&str]) -> io::Result<Vec<Layer>> {
    let layer = |word: &&str| Layer::named(word).ok_or(io::Error::from(io::ErrorKind::InvalidInput));
    words.iter().map(layer).collect()
}

fn run(state: &str, save: &str, numbers: [&str; 3], words: &[&str]) -> io::Result<bool> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let [seed, cases, deeds] = numbers;
    let (seed, deeds) = (number(seed)?, number(deeds)?);
    let (cases, pairs) = match cases.strip_suffix("-pairs") {
        Some(pairs) => (u64::MAX - seed, number(pairs)?),
        None => (number(cases)?, u64::MAX),
    };
    let layers = layers(words)?;
    let world = World::new(state, &layers)?;
    let (mut tried, mut left_out, mut wrong, mut policies) = (vec![0; layers.len()], 0, 0, 0);
    // The hook has no deed for most, renderings and calls are not made of every policy, and the fences have the same number but
    // for policies that start nothing.
    let is_enough = |tried: &[usize]| {
        let fences = layers.iter().zip(tried).filter(|(layer, _)| matches!(layer, Layer::Fence(_) | Layer::Walls));
        fences.map(|(_, count)| *count as u64).min().is_some_and(|least| least >= pairs)
    };
    for seed in seed..seed + cases {
        if is_enough(&tried) {
            break;
        }
        policies += 1;
        let case = random::case(seed, usize::try_from(deeds).unwrap_or(usize::MAX));
        for (at, layer) in layers.iter().enumerate() {
            match world.try_case(&case, *layer, &mut |_| ())? {
                // Nothing starts with such a policy.
                None => left_out += 1,
                Some(Found { tried: count, wrong: found }) => {
                    tried[at] += count;
                    if let Some(first) = found.first() {
                        wrong += 1;
                        if save == "-" {
                            report(&case, seed, *layer, first, &found, save)?;
                            continue;
                        }
                        // What is still wrong in the small one says more.
                        let small = shrunk(&world, &case, *layer)?;
                        let left = world.try_case(&small, *layer, &mut |_| ())?.map(|left| left.wrong);
                        let first = left.iter().flatten().next().unwrap_or(first);
                        report(&small, seed, *layer, first, &found, save)?;
                    }
                }
            }
        }
    }
    let counts: Vec<String> =
        layers.iter().zip(&tried).map(|(layer, count)| format!("{} {count}", layer.word())).collect();
    say(&format!("agree: {policies} policies; tried: {}; left out: {left_out}; wrong: {wrong}", counts.join(", ")));
    Ok(wrong == 0)
}

fn report(small: &Case, seed: u64, layer: Layer, first: &str, found: &[String], save: &str) -> io::Result<()> {
    let text = format!("# seed {seed}, {}: {first}\n{}", layer.word(), small.to_text());
    if save == "-" {
        say(&format!("seed {seed}, {}:\n    {}\n", layer.word(), found.join("\n    ")));
    } else {
        say(&format!("{text}\n({} of this case)\n", found.len()));
        fs::create_dir_all(save)?;
        fs::write(Path::new(save).join(format!("{}-{seed}.case", layer.word())), text)?;
    }
    Ok(())
}

fn show(seed: &str, deeds: &str) -> io::Result<bool> {
    let number = |text: &str| text.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let deeds = usize::try_from(number(deeds)?).unwrap_or(usize::MAX);
    say(&random::case(number(seed)?, deeds).to_text());
    Ok(true)
}

fn read(file: &str) -> io::Result<Case> {
    Case::read(&fs::read_to_string(file)?).map_err(|line| io::Error::other(format!("{file}: {line}")))
}

fn replay(state: &str, rest: &[&str]) -> io::Result<bool> {
    let at = rest.iter().position(|word| *word == "--").ok_or(io::ErrorKind::InvalidInput)?;
    let layers = layers(&rest[..at])?;
    let world = World::new(state, &layers)?;
    let mut is_well = true;
    for file in &rest[at + 1..] {
        let case = read(file)?;
        for layer in &layers {
            let found = world.try_case(&case, *layer, &mut |_| ())?;
            for wrong in found.iter().flat_map(|found| &found.wrong) {
                is_well = false;
                say(&format!("{file} [{}]: {wrong}", layer.word()));
            }
        }
    }
    Ok(is_well)
}

/// A case in which nothing shows is no case of that bug.
fn broken(state: &str, bug: &str, files: &[&str]) -> io::Result<bool> {
    let bug = bugs::named(bug).ok_or(io::ErrorKind::InvalidInput)?;
    let world = World::new(state, &[bug.layer])?;
    let mut shows = true;
    for file in files {
        let case = read(file)?;
        let well = world.try_case(&case, bug.layer, &mut |_| ())?;
        let found = world.try_case(&case, bug.layer, &mut |last| (bug.change)(last))?;
        let count = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.wrong.len());
        say(&format!("{file}: {} without the bug, {} with it", count(&well), count(&found)));
        found.iter().flat_map(|found| &found.wrong).for_each(|wrong| say(&format!("    {wrong}")));
        shows &= count(&well) == 0 && count(&found) > 0;
    }
    Ok(shows)
}

/// Does a bug show among cases by chance?
fn chance(state: &str, bug: &str, numbers: [&str; 3]) -> io::Result<bool> {
    let [seed, cases, deeds] = numbers.map(|text| text.parse::<u64>().unwrap_or(0));
    let bug = bugs::named(bug).ok_or(io::ErrorKind::InvalidInput)?;
    let world = World::new(state, &[bug.layer])?;
    for seed in seed..seed + cases {
        let case = random::case(seed, usize::try_from(deeds).unwrap_or(usize::MAX));
        let found = world.try_case(&case, bug.layer, &mut |last| (bug.change)(last))?;
        if let Some(wrong) = found.and_then(|found| found.wrong.into_iter().next()) {
            say(&format!("seed {seed}: {wrong}"));
            return Ok(true);
        }
    }
    Ok(false)
}

fn absolute(path: &str) -> io::Result<AbsPath> {
    AbsPath::lexical(path.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}
