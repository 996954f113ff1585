//! The library with the program as its jail: paths are checked on both sides of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ringfence_fs::{Environment as _, Exec, FileError, LocalEnvironment, Outcome, Root, Writable};
use ringfence_session::jail::wrap_with;

/// M5: a tool's path is stopped without the jail, and a command's own writes without the root. Neither does the other's work.
#[test]
fn m5_paths_are_checked_beside_the_jail() {
    let world = crate::world();
    let (project, binary) = (world.mkdir("project"), world.binary().to_owned());
    fs::create_dir(project.join("src")).unwrap();
    fs::write(project.join("keep"), "old").unwrap();
    let globs = ["src/**"];
    let root = Root::open(&project, Writable::globs(globs).unwrap()).unwrap();
    let anchor = project.clone();
    let environment =
        LocalEnvironment::with_wrapped_exec(root, move |command| wrap_with(&binary, command, &anchor, &globs));

    // The jail knows nothing of a tool's write: this process is in none.
    let refused = environment.write(Path::new("keep"), b"new").unwrap_err();
    assert!(matches!(refused, FileError::PathNotAllowed { .. }), "{refused}");

    // The root knows nothing of what a command opens.
    let line = "echo in > src/a && ! echo out > keep && ! rm keep && ! echo out > ../beside && cat keep";
    let exec = Exec::shell(line, Duration::from_secs(60)).env("PATH", "/usr/bin:/bin");
    let done = environment.exec(&exec).unwrap();
    assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::Exited(0), &b"old"[..]), "{done:?}");
    assert_eq!(environment.read(Path::new("src/a"), 100).unwrap(), b"in\n");
    assert_eq!(fs::read(project.join("keep")).unwrap(), b"old");
    assert!(!project.with_file_name("beside").exists());

    // What the command left for a tool to trip over.
    environment.exec(&Exec::new("/bin/ln", Duration::from_secs(60)).args(["-s", "../keep", "src/link"])).unwrap();
    let refused = environment.write(Path::new("src/link"), b"new").unwrap_err();
    assert!(matches!(refused, FileError::PathEscape { .. }), "{refused}");
    assert_eq!(fs::read(project.join("keep")).unwrap(), b"old");
}
