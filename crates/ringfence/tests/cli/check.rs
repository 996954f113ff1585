//! `ringfence check FILE`: each file as `--policy` would use it.

use serde_json::Value;

use crate::world;

/// What shows only when a file is used shows here too.
#[test]
fn a_file_is_resolved_as_policy_would() {
    let world = world();
    let text = "version = 1\n[files]\nwrite = [\".\", \"gen/out\"]\nread = [\"$GOPATH/x\"]\ndeny = [\"gen\"]\n";
    world.write("other.toml", text);
    let run = world.ringfence(&["check", "../other.toml"]).expect_code(0);
    let stderr = world.hide(&run.stderr);
    for part in [
        "warning: write \"gen/out\" has no effect",
        "the rule that wins: <world>/other.toml:5:9",
        "warning: $GOPATH/x (<world>/other.toml:4:9) takes no part: $GOPATH is not set",
        "1 policy file can be used",
    ] {
        assert!(stderr.contains(part), "{part}\n{stderr}");
    }
    assert!(!stderr.contains("ringfence trust"), "a named file is trusted\n{stderr}");
    let report: Value =
        serde_json::from_str(&world.ringfence(&["check", "--json", "../other.toml"]).expect_code(0).stdout).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["omissions"][0]["entry"], "$GOPATH/x");
    assert_eq!(report["diagnostics"][0]["place"]["line"], 3);
}

/// A file that cannot be read is one that cannot be used, and the next is checked all the same.
#[test]
fn an_unreadable_file_is_in_the_report() {
    let world = world();
    world.write("good.toml", "version = 1\n");
    world.write("bad.toml", "version = 1\n[files]\nwirte = []\n");
    world.mkdir("dir.toml");
    let files = ["../gone.toml", "../dir.toml", "../bad.toml", "../good.toml"];
    let run = world.ringfence(&[&["check", "--json"], files.as_slice()].concat()).expect_code(1);
    let report: Value = serde_json::from_str(&world.hide(&run.stdout)).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["files"].as_array().unwrap().len(), 4, "{report:#}");
    let said: Vec<&str> =
        report["diagnostics"].as_array().unwrap().iter().map(|d| d["message"].as_str().unwrap()).collect();
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].starts_with("cannot read <world>/gone.toml: No such file"), "{said:#?}");
    assert!(said[1].starts_with("cannot read <world>/dir.toml: not a regular file"), "{said:#?}");
    assert!(said[2].contains("wirte"), "{said:#?}");
    let run = world.ringfence(&[&["check"], files.as_slice()].concat()).expect_code(1);
    assert!(run.stderr.contains("gone.toml") && run.stderr.contains("did you mean `write`?"), "{}", run.stderr);
    world.ringfence(&["check", "../good.toml", "../good.toml"]).expect_code(0);
}

/// Where one stands is not the file's fault, and what the user's own file says wrong is said once.
#[test]
fn what_is_not_the_files_fault() {
    let world = world();
    let good = world.write("good.toml", "version = 1\n");
    let run = world.in_dir("/usr/bin").ringfence(&["check".as_ref(), good.as_os_str()]).expect_code(0);
    assert!(run.stderr.contains("warning: the current directory is /usr/bin"), "{}", run.stderr);
    world.write("home/.config/ringfence/config.toml", "version = 1\n[files]\nwirte = []\n");
    world.write("also.toml", "version = 1\n");
    let run = world.ringfence(&["check", "../good.toml", "../also.toml"]).expect_code(1);
    assert_eq!(run.stderr.matches("config.toml:3:1").count(), 1, "{}", run.stderr);
}
