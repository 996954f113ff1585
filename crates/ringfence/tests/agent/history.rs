//! What a client remembers of a project.

use crate::desk::Desk;

/// Conversations are there again in the next session of the same project, and nothing else of the home is.
#[test]
fn conversations_last() {
    for desk in Desk::all() {
        desk.run(&["run", "--agent", "claude"], "echo said > ~/.claude/projects/talk; echo x > ~/other");
        let shown = desk.run(&["run", "--agent", "claude"], "cat ~/.claude/projects/talk; ls -A ~");
        assert!(shown.contains("said\n") && !shown.contains("other"), "{shown}");
        let shown = desk.run(&["run", "--agent", "codex"], "ls -A ~/.codex/sessions; find ~ -name talk; echo end");
        assert!(!shown.contains("talk"), "{shown}");
    }
}

/// What an agent puts in the place of its past costs it its memory, and the next session nothing.
#[test]
fn a_planted_link_leads_nowhere() {
    let desk = Desk::of_nobody();
    let secret = desk.write("home/secret/file", "SECRET\n");
    let dir = secret.parent().unwrap().display().to_string();
    let plant = "kept=$(readlink ~/.claude/projects); rm -rf $kept; ln -s DIR $kept; ls -la $kept".replace("DIR", &dir);
    desk.run(&["run", "--agent", "claude"], &plant);
    let shown = desk.run(&["run", "--agent", "claude"], "cat ~/.claude/projects/file; echo still here");
    assert!(shown.contains("still here") && !shown.contains("SECRET"), "{shown}");
    assert!(shown.contains("remembers nothing of earlier sessions"), "{shown}");
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "SECRET\n");
}
