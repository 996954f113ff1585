//! Grants that nothing made use of.

use std::fs;

use crate::place::each;

#[test]
fn what_was_never_written_is_found() {
    each(|place| {
        for dir in ["other/used", "other/unused", "other/read"] {
            place.world.mkdir(dir);
        }
        let policy = "version = 1\n[files]\nwrite = [\".\", \"../other/used\", \"../other/unused\"]\nread = [\"../other/read\"]\n\
                      [network]\nallow = [\"never.example.com\"]\n";
        place.world.write("project/ringfence.toml", policy);
        place.done(&["trust"]);
        let none = place.done(&["learn", "--shrink"]);
        assert!(none.contains("nothing can be said") && !none.contains("@@"), "{none}");
        // A run of `learn` itself shows nothing of what is used.
        place.learn(&[], &["true"]);
        assert!(place.done(&["learn", "--shrink"]).contains("nothing can be said"));
        for _ in 0..2 {
            place.done(&["run", "--", "sh", "-c", "echo x > ../other/used/x"]);
        }
        let said = place.done(&["learn", "--shrink"]);
        for told in [
            "looked at 2 sessions",
            "unused: files.write \"../other/unused\": never written to in 2 sessions; moved to files.read",
            "unused: network.allow \"never.example.com\": never reached in 2 sessions",
            "used: files.write \"../other/used\": written to in 2 of 2 sessions",
            "unknown: files.read \"../other/read\": what was read is not recorded",
        ] {
            assert!(said.contains(told), "{told}\n{said}");
        }
        place.done(&["learn", "--shrink", "--write", "--yes"]);
        let text = fs::read_to_string(place.path("project/ringfence.toml")).unwrap();
        assert!(text.contains("write = [\".\", \"../other/used\"]") && text.contains("allow = []"), "{text}");
        assert!(text.contains("    \"../other/unused\", # never written to in 2 sessions"), "{text}");
        // It is trusted as it is now, and what was used is still there.
        place.done(&["run", "--", "sh", "-c", "echo x > ../other/used/x && ! touch ../other/unused/x"]);
    });
}
