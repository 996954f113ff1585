//! The walk: whatever a tree looks like, what is denied in it is found or hidden.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{each, text};

/// Goes down a chain of directories with long names, step by step: no path says where the last one is.
const DEEP: &str = "import os, sys
for _ in range(int(sys.argv[1])):
    name = 'd' * int(sys.argv[2])
    if sys.argv[3] == 'make': os.mkdir(name)
    os.chdir(name)
if sys.argv[3] == 'make': open('.env', 'w').write('SECRET')
else: print(open('.env').read())
";

/// What lies deeper than a path can say cannot be guarded by itself: the last directory that has a path is closed.
#[test]
fn what_is_too_deep_for_a_path_is_hidden() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        fence.write(&[("project/src/lib.rs", "code\n")]);
        let mut make = Command::new("python3");
        make.args(["-c", DEEP, "30", "200", "make"]);
        assert!(fence.by(make).status().unwrap().success());
        let output = fence.run(&["python3", "-c", DEEP, "30", "200", "read"]);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && !shown.contains("SECRET"), "{shown}");
        assert!(shown.contains("Permission denied"), "{shown}");
        assert!(
            shown.contains("ringfence: hidden: ") && shown.contains("a path longer than the kernel takes"),
            "{shown}"
        );
        fence.works("cat src/lib.rs && echo x > src/new");
    });
}

/// A tree as deep as paths go is walked with few descriptors, and guarded at its end.
#[test]
fn depth_costs_no_descriptors() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let mut make = Command::new("python3");
        make.args(["-c", DEEP, "900", "1", "make"]);
        assert!(fence.by(make).status().unwrap().success());
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", "ulimit -n 32; exec \"$@\"", "sh"]).arg(fence.world.binary()).args(["run", "--"]);
        let output = fence.by(limited).args(["python3", "-c", DEEP, "900", "1", "read"]).output().unwrap();
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && shown.contains("Permission denied"), "{shown}");
        assert!(!shown.contains("SECRET") && !shown.contains("ringfence: hidden"), "{shown}");
    });
}

/// Links are not followed, wherever they lead, and loops end.
#[test]
fn links_lead_the_walk_nowhere() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        fence.write(&[("project/a/.env", "SECRET\n"), ("other/.env", "SECRET\n")]);
        for (target, name) in
            [(".", "here"), ("..", "up"), ("loop", "loop"), ("/", "root"), ("a", "b"), ("../other", "o")]
        {
            symlink(target, fence.path("project").join(name)).unwrap();
        }
        for script in
            ["cat a/.env", "cat b/.env", "cat here/here/a/.env", "cat up/project/a/.env", "cat o/.env", "cat loop"]
        {
            fence.fails(script);
        }
    });
}

/// A link that is there at the start under a guarded name, or one that rules begin with: what it leads to is under other rules, and
/// that is said. Where the same holds there, or nothing is shown of it, nothing is said.
#[test]
fn what_a_guarded_link_leads_to_is_said_not_to_be_guarded() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        fence.write(&[("project/conf/x", ""), ("project/.cargo2/x", ""), ("project/pkg/x", ""), ("other/x", "")]);
        fence.write(&[("project/dev.env", "SECRET\n"), ("project/a/.cargo/x", "")]);
        let said = |links: &[(&str, &str)], options: &[&str]| {
            for (name, target) in links {
                symlink(target, fence.path("project").join(name)).unwrap();
            }
            let words = [&["run"], options, &["--", "true"]].concat();
            let output = fence.ringfence().args(words).output().unwrap();
            for (name, _) in links {
                fs::remove_file(fence.path("project").join(name)).unwrap();
            }
            let shown = text(&output.stderr).replace(fence.path("project").to_str().unwrap(), "$P");
            assert!(output.status.success(), "{shown}");
            let is_it = |line: &&str| line.starts_with("ringfence: not held: no other name");
            shown.lines().filter(is_it).map(str::to_owned).collect::<Vec<_>>()
        };
        for (link, target, list) in [
            (".cargo", "conf", "protect"),
            ("pkg/.cargo", "../conf", "protect"),
            (".cargo", "is-not-there-yet", "protect"),
            (".envrc", "conf/x", "protect"),
            (".env", "dev.env", "deny"),
        ] {
            let lines = said(&[(link, target)], &[]);
            let place = format!("$P/{}", target.trim_start_matches("../"));
            let begins =
                format!("ringfence: not held: no other name of $P/{link} [one-name]: it is a link to {place}, ");
            let is_right = |line: &String| line.starts_with(&begins) && line.ends_with(&format!("in `{list}` too"));
            assert!(matches!(lines.as_slice(), [line] if is_right(line)), "{link} as {:?}: {lines:?}", fence.who);
        }
        let nothing: [String; 0] = [];
        for (link, target) in [
            (".cargo", "a/.cargo"),
            (".cargo", "../other"),
            (".cargo", "/usr/lib"),
            ("plain", "conf"),
            (".env", "a/.env"),
        ] {
            assert_eq!(said(&[(link, target)], &[]), nothing, "{link} to {target} as {:?}", fence.who);
        }
        // What helps is what the line says.
        fence.policy("[files]\nprotect = [\"conf\"]\n");
        assert_eq!(said(&[(".cargo", "conf")], &[]), nothing);
        fence.policy("[workspace]\ntier = \"production\"\n");
        let accepted = ["denied-later", "sockets-later", "replaced", "one-name"];
        let accepted: Vec<&str> = accepted.iter().flat_map(|name| ["--allow-shortfall", *name]).collect();
        assert_eq!(said(&[(".cargo", "conf")], &accepted).len(), 1);
    });
}

/// What is mounted below the project, also the project itself once more, is guarded at each of its places.
#[test]
fn what_is_mounted_twice_is_guarded_twice() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/.env\"]\nprotect = [\"**/frozen\"]\n");
        fence.write(&[
            ("project/a/.env", "SECRET\n"),
            ("project/a/frozen", "old\n"),
            ("project/again/x", ""),
            ("project/new/x", ""),
        ]);
        let mounts = "mount --make-rprivate /; mount --bind $W/project $W/project/again; mount -t tmpfs x $W/project/new; \
                      echo SECRET > $W/project/new/.env; chmod 777 $W/project/new; chmod 666 $W/project/new/.env";
        for inner in [
            "cat a/.env",
            "cat again/a/.env",
            "cat new/.env",
            "echo x > again/a/frozen",
            "mv again/a again/b",
            "mv again/a/.env m",
        ] {
            let output = fence.after_mounting(mounts, &[fence.binary(), "run", "--", "/bin/sh", "-c", inner]);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success() && !shown.contains("SECRET"), "as {:?}: {inner}\n{shown}", fence.who);
            assert!(!shown.contains("error: cannot"), "as {:?}: {inner}\n{shown}", fence.who);
        }
        assert_eq!(fs::read(fence.path("project/a/frozen")).unwrap(), b"old\n");
    });
}

/// What a rule names at one place is guarded where else the host mounts it, in both views.
#[test]
fn what_is_named_is_guarded_where_else_it_is_mounted() {
    each(|fence| {
        fence.write(&[
            ("project/infra/main.tf", "old\n"),
            ("project/private/key", "SECRET\n"),
            ("project/again/x", ""),
            ("project/homes/x", ""),
            ("project/keys/x", ""),
            ("home/.ssh/keys/id", "SECRET\n"),
            ("home/notes", "notes\n"),
            ("other/homes/x", ""),
        ]);
        let mounts = "mount --make-rprivate /; mount --bind $W/project $W/project/again; \
                      mount --bind $W/home $W/project/homes; mount --bind $W/home/.ssh/keys $W/project/keys; \
                      mount --bind $W/home $W/other/homes";
        let check = |view: &str, script: &str, works: bool| {
            let policy =
                format!("version = 1\n[files]\nview = \"{view}\"\ndeny = [\"private\"]\nprotect = [\"infra\"]\n");
            fence.write(&[("project/p.toml", &policy)]);
            let script = fence.script(script);
            let run = [fence.binary(), "run", "--policy", "p.toml", "--", "/bin/sh", "-c", &script];
            let output = fence.after_mounting(mounts, &run);
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.success(), works, "as {:?}: {script}\n{shown}", fence.who);
            assert!(
                !shown.contains("SECRET") && !shown.contains("error: cannot"),
                "as {:?}: {script}\n{shown}",
                fence.who
            );
        };
        for script in [
            "cat private/key",
            "cat again/private/key",
            "echo x > infra/main.tf",
            "echo x > again/infra/main.tf",
            "mv again/infra again/i",
            "cat homes/.ssh/keys/id",
            "ls homes/.local/state/ringfence",
            "cat keys/id",
        ] {
            check("surface", script, false);
        }
        check("surface", "cat homes/notes && echo x > again/new && rm new", true);
        check("host", "cat $W/other/homes/.ssh/keys/id", false);
        check("host", "ls $W/other/homes/.local/state/ringfence", false);
        check("host", "cat $W/other/homes/notes", true);
        assert_eq!(fs::read(fence.path("project/infra/main.tf")).unwrap(), b"old\n");
    });
}

/// A7: rules with wildcards outside the roots are followed from where they begin.
#[test]
fn a7_patterns_outside_the_roots_are_followed() {
    each(|fence| {
        for script in
            ["cat /etc/shadow", "cat /etc/shadow-", "cat /etc/gshadow-", "ls /etc/ssl/private", "cat /proc/kpagecount"]
        {
            fence.fails(script);
        }
        // Closed by a mount, and not only by the mode of the file: then it would be the system's own.
        let mounts = fence.works("cut -d' ' -f5 /proc/self/mountinfo");
        for place in ["/etc/shadow", "/proc/keys", "/proc/kallsyms"] {
            assert!(mounts.lines().any(|line| line == place), "{place}: {mounts}");
        }
    });
}

/// A13: a session that may write a file gives it a second name, and the next session has a rule about the first one. Whatever is
/// denied or protected is so under each of its names.
#[test]
fn a13_a_hard_link_of_a_guarded_file_is_guarded_too() {
    each(|fence| {
        fence.write(&[
            ("project/.env", "SECRET\n"),
            ("project/keys/one", "SECRET\n"),
            ("project/infra/main.tf", "old\n"),
            ("project/plain", "plain\n"),
            ("project/a/b/x", ""),
        ]);
        fence.works("ln .env a/b/notes && ln keys/one two && ln infra/main.tf a/free && ln plain a/plain");
        fence.policy("[files]\ndeny = [\"**/.env\", \"keys\"]\nprotect = [\"infra\"]\n");
        for script in ["cat a/b/notes", "cat two", "mv two three", "mv a c", "rm two", "ln two three"] {
            fence.fails(script);
        }
        for script in
            ["echo x > a/free", "echo x >> a/free", ": > a/free", "chmod 600 a/free", "rm a/free", "mv a/free x"]
        {
            fence.fails(script);
        }
        // What is linked and not guarded, and what is beside it, is worked on.
        fence.works("cat a/free && echo x >> a/plain && rm plain && echo x > a/b/new && rm a/b/new a/plain && echo plain > plain");
        for (path, content) in [("keys/one", "SECRET\n"), (".env", "SECRET\n"), ("infra/main.tf", "old\n")] {
            assert_eq!(fs::read(fence.path("project").join(path)).unwrap(), content.as_bytes(), "{path}");
        }
        let output = fence.sh("echo x > a/free");
        let said = text(&output.stderr);
        assert!(
            said.contains("a/b/notes") && said.contains("another name (a hard link) of something denied"),
            "{said}"
        );
        assert!(said.contains("another name (a hard link) of a file that is guarded"), "{said}");
        assert!(!said.contains("[one-name]"), "every name was found: {said}");
        // A name where nothing is searched.
        fs::hard_link(fence.path("project/infra/main.tf"), fence.path("other")).unwrap();
        let said = text(&fence.sh("true").stderr);
        assert!(said.contains("[one-name]") && said.contains("infra/main.tf"), "{said}");
    });
}

/// I5: a directory in which `.VSCODE` is `.vscode`, somewhere below the root: what rules say of one spelling holds for all. Which
/// spellings a ramfs takes nobody can ask it, so an empty one is treated like one that folds.
#[test]
fn i5_another_spelling_of_a_guarded_name_is_guarded_where_names_may_fold() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"**/secret\"]\n");
        fence.write(&[("project/fat/x", ""), ("project/exact/x", ""), ("project/plain/x", "")]);
        let mount = "mount --make-rprivate /; mount -t ramfs none $W/project/fat; chmod 777 $W/project/fat; \
                     mount -t ramfs none $W/project/exact; chmod 777 $W/project/exact; \
                     echo PUBLIC > $W/project/exact/SECRET; chmod 666 $W/project/exact/*";
        let run = |script: &str| {
            let output =
                fence.after_mounting(mount, &[fence.binary(), "run", "--receipt", "--", "/bin/sh", "-c", script]);
            (output.status.success(), text(&output.stdout) + &text(&output.stderr))
        };
        for script in [
            "mkdir -p fat/.Github/workflows",
            "mkdir fat/.IDEA",
            "mkdir fat/.idea.",
            "echo x > fat/.Envrc",
            "echo x > fat/.MCP.JSON",
            "ln -s x fat/Secret",
            "mknod fat/SECRET p",
            "echo x > fat/1; ln fat/1 fat/.ENVRC",
            "mkdir fat/.v\u{17f}code && echo x > fat/.v\u{17f}code/tasks.json",
            "mkdir fat/.VSCODE && echo x > fat/.VSCODE/settings.json",
            "mkdir fat/.vs\u{200c}code && echo x > fat/.vs\u{200c}code/settings.json",
            "mkdir fat/1 && echo x > fat/1/settings.json && mv fat/1 fat/.VSCode",
            "mkdir fat/1 && echo x > fat/1/2 && mv fat/1/2 fat/1/Secret",
            "mkdir -p fat/.Git/hooks && echo x > fat/.Git/hooks/pre-commit",
            "ln -s 1 fat/.VSCode",
        ] {
            let (works, shown) = run(script);
            assert!(!works, "as {:?}: {script} worked\n{shown}", fence.who);
            assert!(shown.contains("Permission denied"), "as {:?}: {script}\n{shown}", fence.who);
            assert!(!shown.contains("error: cannot"), "as {:?}: {script}\n{shown}", fence.who);
        }
        // What no spelling of a rule means, and a directory that is known to take names as they are.
        let (works, shown) = run(
            "mkdir fat/Src fat/Src/LIB && echo x > fat/Src/LIB/A && mv fat/Src fat/B && mkdir plain/.IDEA \
             && echo x > plain/.Envrc && mkdir plain/.VSCODE && echo x > plain/.VSCODE/settings.json && rm -r plain/.[A-Z]*",
        );
        assert!(works, "as {:?}: {shown}", fence.who);
        assert!(shown.contains("[denied-later]") && shown.contains("different spellings"), "I8: {shown}");
        let (_, shown) = run("cat exact/SECRET");
        assert!(
            shown.contains("PUBLIC\n"),
            "a directory in which another case is not found takes names as they are: {shown}"
        );
    });
}
