//! Policies as data: every file below `policies/invalid` with the exact text a user sees, every file below
//! `policies/valid` without a word, and every example in the documentation.
//!
//! A file ending in `.json` or beginning with `task` is a work item, every other file a policy. To accept new messages, run
//! with `RINGFENCE_BLESS=1` and read the difference.

#![expect(clippy::disallowed_methods, reason = "the crate may not look at the disk, its test data lies there")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use ringfence_surface::policy::shape::Schema;
use ringfence_surface::policy::{Format, MAX_POLICY_BYTES, PolicyFile, Task};
use ringfence_surface::text::{Diagnostic, PolicyText};

/// Parses as what the name says, and renders everything that is said.
fn judge(name: &str, bytes: Vec<u8>) -> Result<(), String> {
    let render = |said: Vec<Diagnostic>| said.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n\n");
    let text = PolicyText::new(name.as_bytes(), bytes).map_err(|said| render(vec![said]))?;
    let result = if name.ends_with(".json") {
        Task::parse(&text, Format::Json).map(drop)
    } else if name.starts_with("task") {
        Task::parse(&text, Format::Toml).map(drop)
    } else {
        PolicyFile::parse(&text).map(drop)
    };
    result.map_err(|said| {
        assert!(!said.is_empty(), "{name}: refused without a word");
        render(said)
    })
}

fn said_about(text: &str) -> String {
    judge("p.toml", text.as_bytes().to_vec()).expect_err("this policy is wrong")
}

/// The files of a directory of test data, by name.
fn files(directory: &str) -> BTreeMap<String, PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies").join(directory);
    let entries = fs::read_dir(&directory).expect("the directory is in the tree");
    let files: BTreeMap<String, PathBuf> = entries
        .map(|entry| entry.expect("the directory can be listed").path())
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("test data has plain names");
            (name.to_owned(), path.clone())
        })
        .collect();
    assert!(!files.is_empty(), "{}", directory.display());
    files
}

fn is_policy(name: &str) -> bool {
    name.ends_with(".toml") || name.ends_with(".json")
}

/// Where the messages of an invalid file are kept: `x.toml.txt`, since `x.json` may stand beside it.
fn golden(policy: &Path) -> PathBuf {
    let mut path = policy.as_os_str().to_owned();
    path.push(".txt");
    PathBuf::from(path)
}

/// Compares one invalid file with its golden; the error is a text for people.
fn compare(name: &str, path: &Path, blesses: bool) -> Result<(), String> {
    let bytes = fs::read(path).expect("test data can be read");
    let Err(mut said) = judge(name, bytes) else {
        return Err(format!("{name} was accepted"));
    };
    said.push('\n');
    let kept = fs::read_to_string(golden(path)).ok();
    if kept.as_deref() == Some(&said) {
        return Ok(());
    }
    if blesses {
        return fs::write(golden(path), said).map_err(|cause| format!("{name}: {cause}"));
    }
    let kept = kept.unwrap_or_else(|| "nothing: the file is missing\n".to_owned());
    Err(format!("--- {name}, expected\n{kept}--- {name}, found\n{said}"))
}

/// G9: every mistake is shown with its place and, where one is near, the word that was meant.
#[test]
fn g9_invalid_policies_say_exactly_this() {
    let blesses = env::var_os("RINGFENCE_BLESS").is_some();
    let files = files("invalid");
    let policies: Vec<_> = files.iter().filter(|(name, _)| is_policy(name)).collect();
    assert!(policies.len() >= 45, "only {} cases", policies.len());
    let wrong: Vec<String> = policies.iter().filter_map(|(name, path)| compare(name, path, blesses).err()).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), policies.len(), wrong.join("\n"));
}

/// G9: a mistyped word in a value is refused with its place, and the word that was meant.
#[test]
fn g9_a_mistyped_surface_mode_is_refused() {
    let said = said_about("version = 1\n[agent.claude.container]\nsurface_mode = \"exlusive\"\n");
    assert_eq!(
        said,
        "error: unknown surface_mode `exlusive`\n  --> p.toml:3:16\n  |\n3 | surface_mode = \"exlusive\"\n  |                ^^^^^^^^^^\nhelp: did you mean `exclusive`?"
    );
}

#[test]
fn no_golden_is_left_without_its_policy() {
    let files = files("invalid");
    let texts = files.keys().filter_map(|name| Some((name, name.strip_suffix(".txt")?)));
    let orphans: Vec<_> = texts.filter(|(_, policy)| !files.contains_key(*policy)).collect();
    assert!(orphans.is_empty(), "{orphans:?}");
    let strangers: Vec<_> = files.keys().filter(|name| !is_policy(name) && !name.ends_with(".txt")).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// What is quoted comes from a repository that nobody has trusted yet.
#[test]
fn no_message_holds_what_moves_a_cursor() {
    for (name, path) in files("invalid").iter().filter(|(name, _)| is_policy(name)) {
        let Err(said) = judge(name, fs::read(path).unwrap()) else { panic!("{name} was accepted") };
        let bad = said.chars().find(|c| {
            (c.is_control() && *c != '\n')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(bad, None, "{name}: {said}");
    }
}

#[test]
fn valid_policies_are_read_without_a_word() {
    let files = files("valid");
    assert!(files.keys().all(|name| is_policy(name)), "{:?}", files.keys());
    for (name, path) in files {
        if let Err(said) = judge(&name, fs::read(path).unwrap()) {
            panic!("{name}\n{said}");
        }
    }
}

/// Every key of the language, at every level.
fn keys(schema: &Schema, found: &mut Vec<&'static str>) {
    match schema {
        Schema::List { of } | Schema::Named { of } => keys(of, found),
        Schema::Table { keys: fields, .. } => {
            for field in fields {
                found.push(field.name);
                keys(&field.schema, found);
            }
        }
        Schema::String { .. } | Schema::Words { .. } | Schema::Integer { .. } | Schema::Boolean => {}
    }
}

/// The sample keeps up with the language.
#[test]
fn the_sample_of_every_key_is_complete() {
    let text = fs::read_to_string(&files("valid")["every-key.toml"]).unwrap();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut all = Vec::new();
    keys(&PolicyFile::schema(), &mut all);
    let unused: Vec<_> = all.iter().filter(|key| !words.contains(key)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// A hostile file must not bring the parser down: this test's thread would overflow its stack.
#[test]
fn deep_nesting_is_refused() {
    for depth in [100, 10_000, 200_000] {
        let open = |text: &str| text.repeat(depth);
        let policies = [
            format!("version = 1\nfiles.read = {}{}\n", open("["), open("]")),
            format!("version = 1\nfiles.read = {}\n", open("[")),
            format!("version = 1\nx = {}1{}\n", open("{a="), open("}")),
            format!("version = 1\n{}a = 1\n", open("a.")),
            format!("version = 1\n[{}a]\n", open("a.")),
            format!("version = 1\n[[{}a]]\n", open("a.")),
        ];
        for policy in policies {
            judge("p.toml", policy.into_bytes()).unwrap_err();
        }
        let tasks = [
            format!("{{\"read\":{}{}}}", open("["), open("]")),
            format!("{{\"read\":{}", open("[")),
            format!("{}1{}", open("{\"a\":"), open("}")),
        ];
        for task in tasks {
            judge("task.json", task.into_bytes()).unwrap_err();
        }
    }
}

#[test]
fn a_policy_has_a_largest_size() {
    let at_most = format!("version = 1\n#{}\n", "x".repeat(MAX_POLICY_BYTES - 14));
    assert_eq!(at_most.len(), MAX_POLICY_BYTES);
    judge("p.toml", at_most.clone().into_bytes()).unwrap();
    let said = judge("p.toml", (at_most + " ").into_bytes()).unwrap_err();
    assert!(said.starts_with("error: this is 1048577 bytes; a policy has at most 1048576\n  --> p.toml:1:1"), "{said}");
}

/// Somebody else's file of nothing but mistakes must neither flood the terminal nor keep the user waiting: after a while the
/// rest is only counted.
#[test]
fn a_file_full_of_mistakes_is_cut_short() {
    let lines = |line: &dyn Fn(usize) -> String| (0..5_000).map(line).collect::<Vec<_>>();
    let unknown_keys = lines(&|n| format!("k{n} = 1")).join("\n");
    let wrong_values = vec!["1"; 5_000].join(", ");
    for (name, text) in [
        ("p.toml", format!("version = 1\n{unknown_keys}\n")),
        ("p.toml", format!("version = 1\nfiles.read = [{wrong_values}]\n")),
        ("p.toml", "=\n".repeat(5_000)),
        ("task.json", format!("{{ {} }}", lines(&|n| format!("\"k{n}\": 1")).join(", "))),
        ("task.json", format!("{{ {} }}", vec!["\"read\": []"; 5_000].join(", "))),
    ] {
        let said = judge(name, text.into_bytes()).unwrap_err();
        assert!(said.len() < 100_000, "{} bytes about {}", said.len(), said.lines().next().unwrap_or_default());
    }
}

/// Nobody has trusted such a file, and every command reads it.
#[test]
fn g6_a_hostile_file_costs_little_time() {
    let keys =
        |start: &str| (0..80_000).map(|n| format!("k{n}={n}")).fold(start.to_owned(), |all, key| all + "\n" + &key);
    let tables = (0..9_000).map(|n| format!("[persona.p{n}]\nwrit{n} = []\nrea{n} = 1\n")).collect::<String>();
    for (text, expected) in [
        (keys("version = 1"), "there are 80001 keys here; at most 10000 are read"),
        (keys("version = 1\n[files]"), "there are 80000 keys here; at most 10000 are read"),
        (format!("version = 1\n{tables}"), "more mistakes are not shown"),
        (format!("version = 1\nfiles.read = [{}]", "'',".repeat(300_000)), "this list has 300000 entries"),
        (format!("version = 1\nfiles.read = ['{}']", "x".repeat(900_000)), "this text has 900000 bytes"),
    ] {
        let began = std::time::Instant::now();
        let said = judge("p.toml", text.into_bytes()).unwrap_err();
        assert!(said.contains(expected) && said.len() < 100_000, "{expected}: {} bytes", said.len());
        // Before there was a limit this took minutes, whatever the machine.
        assert!(began.elapsed().as_secs() < 30, "{expected}: {:?}", began.elapsed());
    }
}

/// Every example in the documentation is a policy, or says that it is part of one by having no `version`.
#[test]
fn the_examples_in_the_documentation_are_policies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["README.md", "docs/policy.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let blocks = toml_blocks(&text);
        assert!(!blocks.is_empty(), "{page} shows no policy");
        for (line, block) in blocks {
            // An excerpt is read as it would stand in a whole file.
            let whole = if block.contains("version = ") { block } else { format!("version = 1\n{block}") };
            if let Err(said) = judge("example.toml", whole.into_bytes()) {
                panic!("{page}:{line}\n{said}");
            }
        }
    }
}

/// The reference must not lag behind the language.
#[test]
fn the_reference_names_every_key_pack_group_and_variable() {
    use ringfence_surface::curated::{groups::GROUPS, packs::PACKS};
    use ringfence_surface::{PATH_VARIABLES, SOCKET_VARIABLES};

    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md")).unwrap();
    let names = PACKS.iter().map(|pack| pack.name).chain(GROUPS.iter().map(|group| group.name));
    let names = names.chain(PATH_VARIABLES.iter().copied()).chain(SOCKET_VARIABLES.iter().copied());
    let absent: Vec<&str> = names.filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(absent.is_empty(), "packs, groups or variables: {absent:?}");
    let words: Vec<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut all = Vec::new();
    keys(&PolicyFile::schema(), &mut all);
    let absent: Vec<_> = all.iter().filter(|key| !words.contains(key)).collect();
    assert!(absent.is_empty(), "keys: {absent:?}");
}

/// The blocks between ```` ```toml ```` and ```` ``` ````, each with the line it begins at.
fn toml_blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        match (inside, line.trim()) {
            (false, "```toml") => {
                inside = true;
                blocks.push((number, String::new()));
            }
            (true, "```") => inside = false,
            (true, _) => {
                if let Some((_, block)) = blocks.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            (false, _) => {}
        }
    }
    assert!(!inside, "a block is never closed");
    blocks
}
