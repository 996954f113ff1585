//! A short run of the fuzz targets in every build: the golden policies, mutated by a fixed seed.

use std::fs;
use std::path::Path;

use ringfence_testkit::fuzz;

/// How many inputs each target gets.
const INPUTS: usize = 20_000;

/// Longer inputs only repeat what shorter ones show.
const LONGEST: usize = 2048;

/// Words that stand in policies and bytes that stand in attacks.
const TOKENS: &[&[u8]] = &[
    b"[",
    b"]",
    b"[[",
    b"]]",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"\"\"\"",
    b"'''",
    b"=",
    b",",
    b".",
    b"#",
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"version = 1\n",
    b"[files]\n",
    b"read = [",
    b"deny = [\"",
    b"!",
    b"**",
    b"**/",
    b"*",
    b"?",
    b"[a-z]",
    b"[!",
    b"..",
    b"/../",
    b"//",
    b"~",
    b"~/",
    b"$HOME",
    b"${HOME}",
    b"${",
    b"$",
    b"link/",
    b"loop",
    b"*.com",
    b"*.",
    b"xn--",
    b"[::1]",
    b"0x7f.1",
    b":443",
    b":0",
    b"/8",
    b"https://",
    b"1e400",
    b"99999999999999999999",
    b"-1",
    b"4GiB",
    b"1h30m",
    b"null",
    b"true",
    b"inf",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xff",
    b"\xf0\x9f\x98\x80",
    b"\xc3\xa9",
    b"\xe3\x80\x82",
    b"1979-05-27",
];

/// A generator of one's own: the inputs must be the same on every machine and in every year.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 when there is none.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % end.max(1)
    }
}

/// One to four changes to one of the seeds.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(6) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => input.truncate(at),
            2 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = from + random.below(other.len() - from + 1);
                input.splice(at..at, other[from..to].iter().copied());
            }
            3 => {
                let to = at + random.below((input.len() - at).min(64) + 1);
                input.drain(at..to);
            }
            _ => {
                let token = TOKENS[random.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

/// Every golden policy, valid or not.
fn policies() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ringfence-surface/tests/policies");
    let mut paths: Vec<_> = ["valid", "invalid"]
        .iter()
        .flat_map(|name| fs::read_dir(root.join(name)).expect("the policies are in the tree"))
        .map(|entry| entry.expect("the directory can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml" || extension == "json"))
        .collect();
    // The order of a directory is the file system's.
    paths.sort();
    let mut policies: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a policy can be read")).collect();
    policies.iter_mut().for_each(|policy| policy.truncate(LONGEST));
    assert!(policies.len() > 50, "only {} seeds", policies.len());
    policies
}

#[test]
fn no_policy_makes_the_reader_panic() {
    let mut seeds = policies();
    for seed in &seeds {
        fuzz::policy(seed);
    }
    seeds.push(Vec::new());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..INPUTS {
        let input = mutated(&seeds, &mut random);
        // What broke it is shown, so that it can become a golden.
        let input = Shown(input);
        fuzz::policy(&input.0);
    }
}

#[test]
fn no_pattern_makes_a_parser_panic() {
    let seeds: Vec<Vec<u8>> = policies()
        .iter()
        .flat_map(|policy| policy.split(|byte| *byte == b'"').map(<[u8]>::to_vec).collect::<Vec<_>>())
        .filter(|word| word.len() < 256)
        .collect();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..INPUTS {
        let input = Shown(mutated(&seeds, &mut random));
        fuzz::pattern(&input.0);
    }
}

#[test]
fn no_glob_is_matched_in_two_ways() {
    let words = ["src/**", "*.rs", "**/a/**/b", "a/*/c", "[a-z]?/x", "a", "**/*", "*/a", "a/b/c"];
    let seeds: Vec<Vec<u8>> = words
        .iter()
        .flat_map(|glob| words.iter().map(move |path| [glob.as_bytes(), b"\0", path.as_bytes()].concat()))
        .collect();
    let mut random = Random(0x6c62_272e_07bb_0142);
    for _ in 0..INPUTS {
        let input = Shown(mutated(&seeds, &mut random));
        fuzz::glob(&input.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_script_of_changes_reaches_the_outside() {
    let lines =
        ["0l/x", "7l/f", "3d/l", "0n", "4m", "2l/d/x", "1d/l", "5l/d", "7d/../l/f", "0../out/f", "6l/*", "4l/f"];
    let seeds: Vec<Vec<u8>> = lines
        .iter()
        .flat_map(|one| lines.iter().map(move |other| [one.as_bytes(), b"\n", other.as_bytes()].concat()))
        .collect();
    let mut random = Random(0x1000_0000_01b3_1d1d);
    for _ in 0..INPUTS / 10 {
        let input = Shown(mutated(&seeds, &mut random));
        fuzz::files(&input.0);
    }
}

/// The tables of lines, mutated.
#[test]
fn k2_no_line_makes_the_classifier_panic() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ringfence-surface/tests/command");
    let tables = ["bypass.txt", "programs.txt", "syntax.txt"].map(|name| fs::read_to_string(root.join(name)));
    let text = tables.map(|table| table.expect("the tables are in the tree")).concat();
    let lines = text.lines().filter_map(|line| line.split_once(" | "));
    let seeds: Vec<Vec<u8>> = lines.map(|(_, line)| line.replace("\\n", "\n").into_bytes()).collect();
    assert!(seeds.len() > 600, "only {} seeds", seeds.len());
    let mut random = Random(0x1405_7b7e_f767_814f);
    for _ in 0..INPUTS {
        let input = Shown(mutated(&seeds, &mut random));
        fuzz::command(&input.0);
    }
}

/// Shows the input when a test panics over it.
struct Shown(Vec<u8>);

impl Drop for Shown {
    #[expect(clippy::print_stderr, reason = "a failing input must be seen to be kept")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", self.0.escape_ascii());
        }
    }
}
