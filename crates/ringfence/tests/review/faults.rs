//! `apply` with sparse files, and `apply` that is killed: nothing but the changes reaches the work tree.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output};

use crate::place::{Place, each, shown};

/// The program behind `strace`, which injects faults.
fn with_faults(place: &Place, faults: &[&str], trace: &str, arguments: &[&str]) -> Output {
    let inner = place.command(arguments);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", trace]);
    for fault in faults {
        command.args(["-e", fault]);
    }
    command.arg("--").arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(place.path("project"));
    command.output().unwrap()
}

/// The temporary names in the project.
fn temporary(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path("project")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(".ringfence-")).collect()
}

#[test]
fn g3_a_sparse_file_is_applied_with_its_holes_and_its_sizes_are_shown() {
    each(|place| {
        let script =
            "truncate -s 1T sparse; printf data | dd of=sparse bs=1 seek=1000000000000 conv=notrunc 2>/dev/null";
        let output = place.ringfence(&["run", "--review", "--", "sh", "-c", script]);
        assert!(output.status.success(), "as {:?}: {}", place.who, shown(&output));
        let output = place.ringfence(&["diff", "--stat"]);
        assert!(shown(&output).contains("added    "), "{}", shown(&output));
        assert!(shown(&output).contains("sparse (1.0 TiB, "), "{}", shown(&output));
        let output = place.ringfence(&["diff", "--json"]);
        assert!(shown(&output).contains("\"bytes\": 1099511627776"), "{}", shown(&output));
        let output = place.ringfence(&["apply"]);
        assert!(output.status.success(), "as {:?}: {}", place.who, shown(&output));
        let there = fs::metadata(place.path("project/sparse")).unwrap();
        assert_eq!(there.len(), 1 << 40);
        assert!(there.blocks() * 512 < 1 << 20, "{}", there.blocks());
        let file = fs::File::open(place.path("project/sparse")).unwrap();
        let mut data = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut data, 1_000_000_000_000).unwrap();
        assert_eq!(&data, b"data");
    });
}

/// A new file has no name before it is complete, and one that replaces another has a temporary name on record only.
#[test]
fn g4_a_killed_apply_leaves_no_temporary_name() {
    each(|place| {
        place.world.write("project/old", "old");
        let output = place.ringfence(&["run", "--review", "--", "sh", "-c", "echo new > made; echo new > old"]);
        assert!(output.status.success(), "as {:?}: {}", place.who, shown(&output));
        let trace = place.at("trace");
        let apply = ["apply"];
        // Killed before the new file gets its name: it never had one.
        let faults = ["trace=openat,linkat", "inject=linkat:signal=KILL:when=1"];
        let output = with_faults(&place, &faults, &trace, &apply);
        assert!(!output.status.success(), "as {:?}: {}", place.who, shown(&output));
        assert!(temporary(&place).is_empty() && !place.path("project/made").exists());
        let text = fs::read_to_string(&trace).unwrap();
        let opens: Vec<&str> = text.lines().filter(|line| line.contains("openat(")).collect();
        let nameless = opens.iter().position(|line| line.contains("O_TMPFILE")).unwrap() + 1;
        // The same where the file system has no files without names: the temporary name stays, on record, and gc removes it.
        let missing = format!("inject=openat:error=EOPNOTSUPP:when={nameless}");
        let faults = ["trace=openat,fdatasync", &missing, "inject=fdatasync:signal=KILL:when=1"];
        with_faults(&place, &faults, &trace, &apply);
        assert_eq!(temporary(&place).len(), 1, "as {:?}: {}", place.who, fs::read_to_string(&trace).unwrap());
        let output = place.ringfence(&["gc"]);
        assert!(temporary(&place).is_empty(), "as {:?}: {}", place.who, shown(&output));
        assert!(shown(&output).contains("which a killed command left"), "{}", shown(&output));
        // Killed between the link and the rename of a file that replaces another. The next apply removes the name.
        let review = fs::read_dir(place.path("home/.local/state/ringfence/reviews")).unwrap().next().unwrap().unwrap();
        let output = place.ringfence(&["apply", review.file_name().to_str().unwrap(), "made"]);
        assert!(output.status.success(), "as {:?}: {}", place.who, shown(&output));
        let faults = ["trace=renameat,renameat2", "inject=renameat,renameat2:signal=KILL:when=1"];
        with_faults(&place, &faults, &trace, &apply);
        assert_eq!(temporary(&place).len(), 1, "as {:?}: {}", place.who, fs::read_to_string(&trace).unwrap());
        assert_eq!(fs::read(place.path("project/old")).unwrap(), b"old");
        let output = place.ringfence(&apply);
        assert!(output.status.success(), "as {:?}: {}", place.who, shown(&output));
        assert!(temporary(&place).is_empty());
        assert_eq!(fs::read(place.path("project/old")).unwrap(), b"new\n");
        assert_eq!(fs::read(place.path("project/made")).unwrap(), b"new\n");
        assert_eq!(fs::read_dir(place.path("home/.local/state/ringfence/temporary")).unwrap().count(), 0);
    });
}
