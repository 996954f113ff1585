//! `ringfence trust`: the user sees what is being trusted.

use crate::world;

const BEFORE: &str = "version = 1\n[files]\nread = [\"../docs\"]\n[network]\nallow = [\"github\"]\n";

/// What takes part from now on is listed.
#[test]
fn what_is_gained_is_said() {
    let world = world();
    world.write("project/ringfence.toml", BEFORE);
    let run = world.ringfence(&["trust"]).expect_code(0);
    let stderr = world.hide(&run.stderr);
    assert!(stderr.contains("takes part now: ../docs (<world>/project/ringfence.toml:3:9)"), "{stderr}");
    assert!(stderr.contains("takes part now: github"), "{stderr}");
    world.write("narrow/ringfence.toml", "version = 1\n[files]\ndeny = [\"private\"]\n");
    let run = world.ringfence(&["trust", "../narrow/ringfence.toml"]).expect_code(0);
    assert!(run.stderr.contains("it adds nothing"), "{}", run.stderr);
}

/// After a change the difference is shown before it can be trusted again.
#[test]
fn what_changed_is_shown() {
    let world = world();
    world.write("project/base.toml", "version = 1\n");
    let main = |read: &str| format!("version = 1\nextends = [\"./base.toml\"]\n[files]\nread = [\"{read}\"]\n");
    world.write("project/ringfence.toml", main("../docs"));
    world.ringfence(&["trust"]).expect_code(0);
    world.write("project/ringfence.toml", main("../secrets"));
    world.write("project/base.toml", "version = 1\n# \u{202e}hidden\n");
    let run = world.ringfence(&["trust"]).expect_code(125);
    let stderr = world.hide(&run.stderr);
    let expected = "changed: <world>/project/base.toml\n+ # \\u{202e}hidden\n\
                    changed: <world>/project/ringfence.toml\n- read = [\"../docs\"]\n+ read = [\"../secrets\"]\n\
                    error: <world>/project/ringfence.toml has changed since it was trusted\n";
    assert!(stderr.starts_with(expected), "{stderr}");
    let run = world.ringfence(&["trust", "--force"]).expect_code(0);
    assert!(run.stderr.contains("+ read = [\"../secrets\"]"), "{}", run.stderr);
    assert!(run.stderr.contains("takes part now: ../secrets"), "{}", run.stderr);
    assert!(world.ringfence(&["trust"]).expect_code(0).stderr.contains("trusted already"));
}

/// Texts that somebody exchanged are not shown as what was trusted.
#[test]
fn texts_that_do_not_fit_the_hash_are_not_believed() {
    let world = world();
    world.write("project/ringfence.toml", BEFORE);
    world.ringfence(&["trust"]).expect_code(0);
    let records = std::fs::read_dir(world.path("home/.local/state/ringfence/trust")).unwrap();
    let texts = records.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some()).unwrap();
    let stored = std::fs::read_to_string(&texts).unwrap();
    std::fs::write(&texts, stored.replace("github", "gitlab")).unwrap();
    world.write("project/ringfence.toml", "version = 1\n");
    let run = world.ringfence(&["trust"]).expect_code(125);
    assert!(run.stderr.contains("what it said when it was trusted is not known"), "{}", run.stderr);
    world.ringfence(&["trust", "--revoke"]).expect_code(0);
    assert_eq!(std::fs::read_dir(world.path("home/.local/state/ringfence/trust")).unwrap().count(), 0);
}

/// What cannot be used is not trusted.
#[test]
fn an_unusable_policy_is_not_trusted() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[workspace]\nroot = \"gone\"\n");
    let run = world.ringfence(&["trust"]).expect_code(125);
    assert!(run.stderr.contains("the policy cannot be used"), "{}", run.stderr);
    assert!(!world.path("home/.local/state/ringfence/trust").exists());
}

/// What a persona, a work item or an agent would open is part of what is trusted, though nothing of it takes part by itself.
#[test]
fn what_waits_for_a_flag_is_said() {
    let world = world();
    let text = "version = 1\n[persona.p]\nwrite = [\"../docs\"]\n[persona.away]\nworkdir = \"..\"\n\
                [task.t]\nread = [\"../secrets\"]\n[agent.claude]\ncommand = [\"./evil\"]\n\
                [agent.claude.container]\nimage = \"evil\"\n[agent.own]\nmode = \"auto\"\n";
    world.write("project/ringfence.toml", text);
    let run = world.ringfence(&["trust"]).expect_code(0);
    let stderr = world.hide(&run.stderr);
    for expected in [
        "with --persona p: ../docs (<world>/project/ringfence.toml:3:10)",
        "with --persona away: it cannot be listed, read what the file says",
        "with --task t: ../secrets",
        "with --agent claude: agent.claude command",
        "with --agent claude: agent.claude.container image",
        "with --agent own: agent.own mode = \"auto\"",
    ] {
        assert!(stderr.contains(&format!("takes part now {expected}")), "{expected}: {stderr}");
    }
    assert!(!stderr.contains("it adds nothing"), "{stderr}");
}
