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

/// What the command line asks for counts there as it does here; a task's file is read here.
#[test]
fn a_plan_from_facts_with_requests() {
    let world = world();
    world.mkdir("docs");
    world.write("items/1.json", "{\"write\": [\"../out\"]}");
    let facts = world.ringfence(&["plan", "--facts", "--ref", "../docs"]).expect_code(0).stdout;
    world.write("facts.json", facts);
    world.mkdir("empty");
    let plan = |args: &[&str]| {
        let args = [&["plan", "--json", "--host", "../facts.json"], args].concat();
        let run = world.in_dir("empty").ringfence(&args);
        (run.code, serde_json::from_str(&world.hide(&run.stdout)).unwrap_or(serde_json::Value::Null), run.stderr)
    };
    let grants = |plan: &serde_json::Value, pattern: &str| {
        plan["rules"].as_array().unwrap().iter().any(|rule| rule["pattern"] == pattern && rule["effect"] != "deny")
    };
    let (_, bare, _) = plan(&[]);
    assert!(!grants(&bare, "<world>/docs") && !grants(&bare, "<world>/out"), "{bare:#}");
    let (_, asked, _) = plan(&["--ref", "../docs", "--env", "STAGE", "--task", "../items/1.json"]);
    assert!(grants(&asked, "<world>/docs") && grants(&asked, "<world>/out"), "{asked:#}");
    assert!(asked["env"].as_array().unwrap().iter().any(|entry| entry["value"] == "STAGE"), "{asked:#}");
    let (code, _, stderr) = plan(&["--task", "../items/gone.json"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("cannot read") && stderr.contains("items/gone.json"), "{stderr}");
    assert_eq!(plan(&["--task", "gone"]).0, 2);
    assert_eq!(plan(&["--env", "A*"]).0, 2);
}

#[test]
fn every_section_is_in_words() {
    let world = world();
    let policy = "version = 1\n[files]\nread = [\"gone\"]\n[env]\npass = [\"STAGE\"]\n\
                  [limits]\nmemory = \"4GiB\"\npids = 512\nwall = \"90m\"\n[network]\nhost_ports = [5432]\n";
    world.write("project/ringfence.toml", policy);
    world.ringfence(&["trust"]).expect_code(0);
    let text = world.hide(&world.ringfence(&["plan"]).expect_code(0).stdout);
    for part in [
        "\nmounts\n  ",
        "\nskipped\n  <world>/project/gone: nothing is there (<world>/project/ringfence.toml:3:9)\n\n",
        "\nnetwork\n  loopback port 5432  (<world>/project/ringfence.toml:11:15)\n",
        "\n  STAGE  (<world>/project/ringfence.toml:5:9)\n",
        "\nlimits\n  memory 4 GiB  (<world>/project/ringfence.toml:7:10)\n  processes 512  (",
        "\n  time 1h30m  (",
        "\nclaims    ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let all = world.ringfence(&["plan", "--all"]).expect_code(0).stdout;
    assert!(all.lines().count() > text.lines().count() + 20, "{all}");
}

/// What is not applied is not shown as if it were.
#[test]
fn a_self_governing_plan_lists_nothing_that_is_not_applied() {
    let world = world();
    world.write(
        "project/ringfence.toml",
        "version = 1\n[workspace]\nself_governing = true\n[network]\nallow = [\"github\"]\n[limits]\npids = 5\n",
    );
    world.ringfence(&["trust"]).expect_code(0);
    let text = world.ringfence(&["plan"]).expect_code(0).stdout;
    assert_eq!(text.matches("not applied: this project governs itself").count(), 3, "{text}");
    for part in ["  rw ", "  ro ", "github", "processes 5"] {
        assert!(!text.contains(part), "{part}\n{text}");
    }
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
