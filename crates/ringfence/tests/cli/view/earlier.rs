//! What an earlier session left for the next one: files that choose packs, and symbolic links that grants lead through.

use std::fs;

use super::live::{Shell, ringfence};
use super::{each, text};

/// A7: a pack whose file a session made takes no part in the next one until the user agrees.
#[test]
fn a7_a_pack_that_a_session_asks_for_waits_for_the_user() {
    each(|fence| {
        fence.write(&[("project/Cargo.toml", "")]);
        // What was there before the first session is not the agent's.
        let hosts = |arguments: &[&str]| {
            let output = fence.ringfence().args(["run"]).args(arguments).args(["--", "true"]).output().unwrap();
            assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
            text(&output.stderr)
        };
        let explained = |host: &str| ringfence(fence, &["explain", "--host", host]).status.success();
        assert!(explained("index.crates.io") && explained("static.crates.io"));
        let said = hosts(&[]);
        assert!(!said.contains("is new here"), "{said}");
        fence.works("touch package.json go.mod");
        let said = hosts(&[]);
        for line in
            ["pack node", "package.json is new here since a session ran", "`ringfence trust --packs`", "pack go"]
        {
            assert!(said.contains(line), "as {:?}: {line}: {said}", fence.who);
        }
        assert!(explained("static.crates.io") && !explained("registry.npmjs.org") && !explained("proxy.golang.org"));
        // For one run, and it waits again.
        let said = hosts(&["--pack", "node"]);
        assert!(!said.contains("pack node") && said.contains("pack go"), "{said}");
        assert!(hosts(&[]).contains("pack node"));
        let agreed = ringfence(fence, &["trust", "--packs"]);
        assert!(text(&agreed.stderr).contains("pack node takes part"), "{}", text(&agreed.stderr));
        assert!(!hosts(&[]).contains("is new here"));
        assert!(explained("registry.npmjs.org") && explained("proxy.golang.org"));
        // A project that names its packs asks for no other.
        fence.works("touch pyproject.toml");
        assert!(hosts(&[]).contains("pack python"));
        fence.policy("extends = []\n");
        assert!(!hosts(&[]).contains("is new here"));
        fs::remove_file(fence.path("project/ringfence.toml")).unwrap();
        // Anybody's bucket is in no pack.
        assert!(!explained("storage.googleapis.com"));
    });
}

/// A7: a session above a directory makes files in it before any session ran there.
#[test]
fn a7_files_in_what_a_session_could_write_are_no_first_look() {
    each(|fence| {
        fence.works("mkdir sub && touch sub/package.json");
        let mut command = fence.ringfence();
        command.current_dir(fence.path("project/sub"));
        let said = text(&command.args(["run", "--", "true"]).output().unwrap().stderr);
        assert!(said.contains("pack node") && said.contains("is new here"), "as {:?}: {said}", fence.who);
    });
}

/// E4: a link that an earlier session made does not lead a grant elsewhere, although this one could not make it.
#[test]
fn e4_a_link_of_an_earlier_session_leads_no_grant_elsewhere() {
    each(|fence| {
        fence.write(&[("other/private/key", "SECRET\n"), ("other/open/kept", "kept\n")]);
        let trusted = |policy: &str| {
            fence.policy(policy);
            assert!(ringfence(fence, &["trust", "--force"]).status.success());
        };
        trusted("[files]\nwrite = [\".\", \"../other/open\"]\n");
        fence.works("ln -s ../private $W/other/open/data");
        trusted("[files]\nwrite = [\".\"]\nread = [\"../other/open/data\"]\n");
        fence.fails("cat $W/other/private/key");
        let said = text(&fence.sh("true").stderr);
        assert!(said.contains("other/open/data is a symbolic link"), "as {:?}: {said}", fence.who);
        // The user names what it leads to.
        trusted("[files]\nwrite = [\".\"]\nread = [\"../other/private\"]\n");
        fence.works("cat $W/other/private/key");
        // What is named on the command line goes through no such link either.
        trusted("[files]\nwrite = [\".\"]\n");
        let path = fence.script("$W/other/open/data/key");
        let output = fence.ringfence().args(["run", "--ref", &path, "--", "cat", &path]).output().unwrap();
        assert!(!text(&output.stdout).contains("SECRET"), "as {:?}", fence.who);
    });
}

/// A17: a grant does not follow a link that the session can make or change.
#[test]
fn a17_a_grant_follows_no_link_of_the_sessions() {
    each(|fence| {
        fence.write(&[("other/private/key", "kept\n"), ("other/data", "kept\n")]);
        let mut shell = Shell::start(fence, &[]);
        shell.does("ln -s $W/other link; ln -s link again");
        for (typed, access) in [("link/private", "--read"), ("./link/private/key", "--read"), ("again/data", "--write")]
        {
            let output = ringfence(fence, &["grant", &shell.id, access, typed]);
            let said = text(&output.stderr);
            assert!(!output.status.success(), "as {:?}: {typed}: {said}", fence.who);
            assert!(said.contains("is a symbolic link that the session can make"), "{said}");
            assert!(said.contains(&format!("`{access} {}", fence.script("$W/other/"))), "{said}");
        }
        assert!(shell.does("cat $W/other/private/key").contains("No such file"));
        shell.is_granted("$W/other/private");
        assert_eq!(shell.does("cat $W/other/private/key"), "kept");
        shell.ends();
    });
}
