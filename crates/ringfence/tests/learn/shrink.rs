//! Grants that nothing made use of.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use crate::place::{each, shown};

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

/// What is moved from one list to another says the same there, however it was quoted.
#[test]
fn what_is_moved_is_what_was_written() {
    each(|place| {
        for dir in ["other/a*b", "other/say \"x\"", "other/u0041"] {
            place.world.mkdir(dir);
        }
        let policy = r#"version = 1
[files]
write = [".", # "not this"
  "../other/a\\*b" # one
  , '../other/say "x"', "../other/\u0041"]
"#;
        place.world.write("project/ringfence.toml", policy);
        place.done(&["trust"]);
        place.done(&["run", "--", "true"]);
        place.done(&["learn", "--shrink", "--write", "--yes"]);
        let text = fs::read_to_string(place.path("project/ringfence.toml")).unwrap();
        for path in [r"'../other/a\*b'", r#""../other/say \"x\"""#, "\"../other/A\""] {
            assert!(text.contains(&format!("    {path}, # never written")), "{path}\n{text}");
        }
        place.done(&["explain", "--read", &place.at("other/a*b")]);
        assert_eq!(place.ringfence(&["explain", "--read", &place.at("other/u0041")]).status.code(), Some(1));
    });
}

/// Waits for the file that is about to take the policy's place, and puts another there.
const SWAPPER: &str = "
import os
with open('evil', 'w') as file:
    file.write('version = 1\\n[files]\\nwrite = [\".\", \"/var\"]\\n')
print('ready', flush=True)
while not os.path.exists('done'):
    for name in os.listdir('.'):
        if name.startswith('.ringfence-'):
            try:
                os.rename('evil', name)
            except OSError as error:
                print(error, flush=True)
";

/// A session that runs meanwhile gets nothing of its own trusted, with a broker and without.
#[test]
fn what_a_session_puts_there_meanwhile_is_not_trusted() {
    each(|place| {
        place.world.mkdir("other/unused");
        place.world.write("project/swapper.py", SWAPPER);
        for options in [&[][..], &["--no-broker"]] {
            let policy = "version = 1\n[files]\nwrite = [\".\", \"../other/unused\"]\n";
            place.world.write("project/ringfence.toml", policy);
            let _ = fs::remove_file(place.path("project/done"));
            place.done(&["trust", "--force"]);
            place.done(&["run", "--", "true"]);
            let words = [&["run"], options, &["--", "python3", "swapper.py"]].concat();
            let mut command = place.command(&words);
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut out = child.stdout.take().unwrap();
            out.read_exact(&mut [0; 6]).unwrap();
            let said = shown(&place.ringfence(&["learn", "--shrink", "--write", "--yes"]));
            place.world.write("project/done", "");
            let mut tried = String::new();
            out.read_to_string(&mut tried).unwrap();
            child.wait().unwrap();
            let text = fs::read_to_string(place.path("project/ringfence.toml")).unwrap();
            let decided = place.ringfence(&["explain", "--write", "/var/lib"]);
            let all = format!("as {:?} with {options:?}: {said}\n{tried}\n{text}\n{}", place.who, shown(&decided));
            assert!(!text.contains("/var") || !said.contains("it is trusted"), "{all}");
            assert_eq!(decided.status.code(), Some(1), "{all}");
            if options.is_empty() {
                assert!(!text.contains("/var") && said.contains("it is trusted"), "{all}");
            }
        }
    });
}
