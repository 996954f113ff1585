//! What developers do all day works on an overlay too.

use std::fs;

use crate::place::each;

#[test]
fn git_works_and_what_it_made_lands() {
    each(|place| {
        place.world.write("project/src/a", "a\n");
        place.world.write("project/src/b", "b\n");
        let git = "git -c user.name=n -c user.email=e@x";
        let setup = format!("git init -q . && git add -A && {git} commit -qm one");
        place.done(&["run", "--", "sh", "-ec", &setup]);
        // A directory that was there cannot be renamed on an overlay: `mv` copies it.
        let said = place.review(&format!(
            "git checkout -qb work; echo more >> src/a; {git} commit -qam two; git checkout -q -; echo other > c; git add c; \
             {git} commit -qm three; {git} rebase -q HEAD work; git worktree list; mv src source; git add -A; \
             {git} commit -qm four; git status --porcelain; git log --format=%s | tr '\\n' ' '; git fsck"
        ));
        assert!(said.contains("four two three one"), "{said}");
        assert!(place.path("project/src/a").exists());
        place.done(&["apply"]);
        let after = place.done(&[
            "run",
            "--",
            "sh",
            "-ec",
            "git status --porcelain; git fsck; git log --format=%s | tr '\\n' ' '",
        ]);
        assert!(after.contains("four two three one"), "{after}");
        assert_eq!(fs::read_to_string(place.path("project/source/a")).unwrap(), "a\nmore\n");
        assert!(!place.path("project/src").exists());
    });
}

#[test]
fn files_and_new_directories_are_renamed_and_old_ones_are_not() {
    each(|place| {
        place.world.write("project/old/a", "a");
        let python = "
import os, errno
os.rename('old/a', 'b')
os.mkdir('new'); os.rename('new', 'newer')
open('newer/x', 'w').write('x')
try:
    os.rename('old', 'older')
    print('renamed')
except OSError as error:
    print(errno.errorcode[error.errno])
";
        place.world.write("project/t.py", python);
        let said = place.review("python3 t.py");
        assert!(said.contains("EXDEV"), "{said}");
        assert_eq!(place.changes(), ["deleted old/a", "added b", "added newer", "added newer/x"]);
    });
}
