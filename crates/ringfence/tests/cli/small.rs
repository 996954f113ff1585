//! The commands that only print, and what `run` refuses.

use crate::world;

/// K3 K4: a command runs inside a layer that holds, or it does not run.
#[test]
fn k4_nothing_starts_unfenced() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[workspace]\ntier = \"production\"\n");
    let run = world.ringfence(&["run", "--", "touch", "started"]).expect_code(125);
    assert!(run.stdout.is_empty() && run.stderr.contains("not every claim holds"), "{}", run.stderr);
    assert!(!world.path("project/started").exists());
    world.ringfence(&["run"]).expect_code(2);
}

/// A12: a self-governing session says so loudly.
#[test]
fn a12_self_governing_is_loud() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[workspace]\nself_governing = true\n");
    let run = world.ringfence(&["run", "--", "true"]);
    assert!(!run.stderr.contains("SELF-GOVERNING"), "untrusted: {}", run.stderr);
    world.ringfence(&["trust"]).expect_code(0);
    let run = world.ringfence(&["run", "--", "true"]).expect_code(0);
    assert!(run.stderr.contains("SELF-GOVERNING: no OS layer"), "{}", run.stderr);
    assert!(world.ringfence(&["plan"]).expect_code(0).stdout.contains("SELF-GOVERNING"));
}

#[test]
fn schema_and_completions() {
    let world = world();
    let schema: serde_json::Value = serde_json::from_str(&world.ringfence(&["schema"]).expect_code(0).stdout).unwrap();
    assert_eq!(schema["properties"]["files"]["properties"]["view"]["enum"], serde_json::json!(["surface", "host"]));
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.ringfence(&["completions", shell]).expect_code(0).stdout.contains("explain"), "{shell}");
    }
    for help in ["--help", "-h"] {
        let run = world.ringfence(&[help]).expect_code(0);
        assert!(run.stdout.contains("explain") && run.stdout.contains("125  ringfence refused"), "{}", run.stdout);
    }
    world.ringfence(&["--version"]).expect_code(0);
    let built = world.ringfence(&["--version", "--verbose"]).expect_code(0).stdout;
    let names: Vec<&str> = built.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names[1..], ["commit", "profile", "target", "linked", "features"], "{built}");
    assert!(built.lines().all(|line| line.split_whitespace().count() > 1), "{built}");
}

/// Every page that a page names is there.
#[test]
fn manual_pages() {
    let world = world();
    let mut pages = vec![Vec::<String>::new()];
    for at in 0.. {
        let Some(words) = pages.get(at).cloned() else { break };
        let arguments: Vec<&str> = std::iter::once("man").chain(words.iter().map(String::as_str)).collect();
        let text = world.ringfence(&arguments).expect_code(0).stdout.replace("\\-", "-");
        let name = ["ringfence".to_owned()].into_iter().chain(words.clone()).collect::<Vec<_>>().join("-");
        assert!(text.contains(&format!(".TH {name} 1 ")), "{name}");
        let named = text.lines().filter_map(|line| line.strip_prefix(&name)?.strip_prefix('-')?.strip_suffix("(1)"));
        pages.extend(named.map(|inner| [words.clone(), vec![inner.to_owned()]].concat()));
    }
    assert!(pages.len() > 35 && pages.contains(&vec!["root".to_owned(), "create".to_owned()]), "{pages:?}");
    for words in [&["man", "nonsense"][..], &["man", "root", "nonsense"]] {
        let run = world.ringfence(words).expect_code(2);
        assert!(run.stderr.contains("hint: the commands are "), "{}", run.stderr);
    }
}

/// A reader that goes away is no error.
#[test]
fn a_closed_pipe() {
    let world = world();
    let output = std::process::Command::new("sh")
        .args(["-c", "\"$0\" schema | head -c 1", env!("CARGO_BIN_EXE_ringfence")])
        .current_dir(world.path("project"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(world.variables())
        .output()
        .unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"{".as_slice(), b"".as_slice()));
}

/// A directory that is gone keeps nobody from looking after sessions.
#[test]
fn sessions_are_listed_from_a_directory_that_is_gone() {
    let world = world();
    let script = |script: &str| {
        std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_ringfence")])
            .current_dir(world.path("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(world.variables())
            .output()
            .unwrap()
    };
    let output = script("mkdir gone && cd gone && rmdir ../gone && \"$0\" ps");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("no session runs"), "{said}");
    // What needs a project says what helps, and so does what cannot keep its state.
    for (start, hint) in [
        (
            "mkdir gone && cd gone && rmdir ../gone && \"$0\" run -- true",
            "hint: it was removed, or moved out of reach: ",
        ),
        (
            "unset XDG_STATE_HOME; HOME=/proc \"$0\" run -- true",
            "hint: ringfence keeps its state there: XDG_STATE_HOME names another place\n",
        ),
    ] {
        let output = script(start);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(125) && said.contains(hint), "{start}: {said}");
    }
}

/// That there is nothing is said, as it is by every other list.
#[test]
fn an_audit_without_a_line_says_so() {
    let run = world().ringfence(&["audit", "--session", "nobody"]).expect_code(0);
    assert!(run.stdout.is_empty() && run.stderr == "ringfence: the audit has nothing of that\n", "{}", run.stderr);
    let run = world().ringfence(&["violations"]).expect_code(0);
    assert!(run.stdout.is_empty() && run.stderr == "ringfence: nothing was denied\n", "{}", run.stderr);
    let run = world().ringfence(&["violations", "--json"]).expect_code(0);
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{}", run.stderr);
    let run = world().ringfence(&["audit", "--session", "nobody", "--json"]).expect_code(0);
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{}", run.stderr);
}
