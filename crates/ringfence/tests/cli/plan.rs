//! `ringfence plan`: what would be enforced, here and elsewhere.

use crate::world;

#[test]
fn a_plan_in_words_and_json() {
    let world = world();
    world.write("project/Cargo.toml", "");
    world.write(
        "project/ringfence.toml",
        "version = 1\n[files]\nread = [\"../docs\", \"$GOPATH/x\", \"gone\"]\ndeny = [\"secret\"]\n",
    );
    world.mkdir("docs");
    world.ringfence(&["trust"]).expect_code(0);
    let run = world.ringfence(&["plan"]).expect_code(0);
    let text = world.hide(&run.stdout);
    for part in [
        "root      <world>/project",
        "rw <world>/project  (working-dir)",
        "ro <world>/docs  (read)",
        "deny \"secret\"  (<world>/project/ringfence.toml:4:9)",
        "-> /bin -> usr/bin",
        "crates.io",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(run.stderr.contains("$GOPATH/x") && run.stderr.contains("$GOPATH is not set"), "{}", run.stderr);
    let run = world.ringfence(&["plan", "--json"]).expect_code(0);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["schema"], 1);
    assert_eq!(plan["packs"], serde_json::json!(["rust"]));
    assert_eq!(plan["omissions"][0]["entry"], "$GOPATH/x");
    assert!(plan["mounts"].as_array().unwrap().iter().any(|m| m["op"] == "bind" && m["access"] == "rw"));
    let paths: Vec<&str> = plan["mounts"].as_array().unwrap().iter().map(|m| m["path"].as_str().unwrap()).collect();
    assert!(paths.is_sorted(), "by destination: {paths:?}");
}

/// K17: the facts of a host explain it elsewhere, without a look at this machine.
#[test]
fn k17_a_plan_from_facts() {
    let world = world();
    world.write("project/Cargo.toml", "");
    world.write("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"secret\"]\n[persona.r]\nwrite = []\n");
    world.ringfence(&["trust"]).expect_code(0);
    let here = world.ringfence(&["plan", "--json"]).expect_code(0).stdout;
    let facts = world.ringfence(&["plan", "--facts"]).expect_code(0).stdout;
    world.write("facts.json", &facts);
    std::fs::remove_file(world.path("project/Cargo.toml")).unwrap();
    std::fs::remove_file(world.path("project/ringfence.toml")).unwrap();
    world.mkdir("empty");
    let there = world.in_dir("empty").ringfence(&["plan", "--host", "../facts.json", "--json"]).expect_code(0).stdout;
    assert_eq!(here, there);
    world.in_dir("empty").ringfence(&["plan", "--host", "../facts.json", "--persona", "r"]).expect_code(0);
}

/// Facts go to files and other machines: no variable that could hold a secret is among them.
#[test]
fn facts_hold_no_secrets() {
    let world = world();
    let run =
        world.in_dir("project").env("AWS_SECRET_ACCESS_KEY", "hunter2").ringfence(&["plan", "--facts"]).expect_code(0);
    assert!(!run.stdout.contains("hunter2") && run.stdout.contains("\"HOME\""));
}

#[test]
fn bad_facts() {
    let world = world();
    for text in ["", "{}", "[]", "{\"schema\":2}", "\u{0}"] {
        world.write("facts.json", text);
        let run = world.ringfence(&["plan", "--host", "../facts.json"]).expect_code(125);
        assert!(
            run.stderr.contains("does not describe a host") && run.stderr.contains("hint:"),
            "{text}: {}",
            run.stderr
        );
    }
}
