//! Programs that are known not to be read-only, for the sake of a better reason. Without a row here a program is refused as well.

const CHANGES: &str = "changes files";
const EDIT: &str = "use the edit tool";
const STARTS: &str = "starts whatever it is given";
const NETWORK: &str = "talks to other machines, and what they do then is not known";
const ESCAPES: &str = "can start other programs while it shows a text";
const CODE: &str = "runs code";
const STATE: &str = "changes the shell itself";
const BUILDS: &str = "runs what the project configures";
const SYSTEM: &str = "changes the system";

/// Sorted by name: the reason, and the remedy where there is one.
const REFUSED: &[(&str, &str, &str)] = &[
    (".", CODE, ""),
    ("alias", STATE, ""),
    ("apt", SYSTEM, ""),
    ("apt-get", SYSTEM, ""),
    ("at", STARTS, ""),
    ("bat", ESCAPES, "use `cat`"),
    ("bc", CODE, ""),
    ("bind", STATE, ""),
    ("brew", SYSTEM, ""),
    ("builtin", STATE, "leave it out"),
    ("bun", CODE, ""),
    ("bundle", BUILDS, ""),
    ("busybox", STARTS, "name the program itself"),
    ("cargo", "runs what a toolchain file in the project names, and may write Cargo.lock", ""),
    ("chgrp", CHANGES, ""),
    ("chmod", CHANGES, ""),
    ("chown", CHANGES, ""),
    ("chroot", STARTS, ""),
    ("cp", CHANGES, ""),
    ("crontab", SYSTEM, ""),
    ("csplit", CHANGES, ""),
    ("curl", NETWORK, ""),
    ("dd", CHANGES, ""),
    ("declare", STATE, "assign without it"),
    ("deno", CODE, ""),
    ("docker", SYSTEM, ""),
    ("ed", CHANGES, EDIT),
    ("emacs", ESCAPES, ""),
    ("enable", STATE, ""),
    ("eval", CODE, "write the command out"),
    ("ex", CHANGES, EDIT),
    ("exec", STATE, "leave it out"),
    ("flock", STARTS, ""),
    ("gem", BUILDS, ""),
    ("gh", NETWORK, ""),
    ("go", "may change to a toolchain that the project names, and download it", ""),
    ("gradle", BUILDS, ""),
    ("gunzip", CHANGES, "use `zcat`"),
    ("gzip", CHANGES, "use `zcat`"),
    ("hash", STATE, ""),
    ("install", CHANGES, ""),
    ("kill", "ends processes", ""),
    ("killall", "ends processes", ""),
    ("kubectl", NETWORK, ""),
    ("less", ESCAPES, "use `cat`"),
    ("let", "evaluates what it is given", ""),
    ("ln", CHANGES, ""),
    ("local", STATE, "assign without it"),
    ("lua", CODE, ""),
    ("make", BUILDS, ""),
    ("man", ESCAPES, "use `PROGRAM --help`"),
    ("mkdir", CHANGES, ""),
    ("mkfifo", CHANGES, ""),
    ("mktemp", CHANGES, ""),
    ("more", ESCAPES, "use `cat`"),
    ("mount", SYSTEM, ""),
    ("mv", CHANGES, ""),
    ("nano", ESCAPES, EDIT),
    ("nc", NETWORK, ""),
    ("node", CODE, ""),
    ("nohup", "writes nohup.out", "leave it out"),
    ("npm", BUILDS, ""),
    ("npx", CODE, ""),
    ("parallel", STARTS, "use `xargs`"),
    ("patch", CHANGES, EDIT),
    ("perl", CODE, ""),
    ("php", CODE, ""),
    ("pip", BUILDS, ""),
    ("pkill", "ends processes", ""),
    ("pnpm", BUILDS, ""),
    ("podman", SYSTEM, ""),
    ("python", CODE, ""),
    ("python3", CODE, ""),
    ("readonly", STATE, "assign without it"),
    ("rm", CHANGES, ""),
    ("rmdir", CHANGES, ""),
    ("rsync", CHANGES, ""),
    ("ruby", CODE, ""),
    ("rustc", "runs what a toolchain file in the project names", ""),
    ("scp", NETWORK, ""),
    ("script", STARTS, ""),
    ("setsid", STARTS, "leave it out"),
    ("shred", CHANGES, ""),
    ("source", CODE, ""),
    ("split", CHANGES, ""),
    ("ssh", NETWORK, ""),
    ("strace", STARTS, ""),
    ("su", STARTS, ""),
    ("sudo", "runs as another user", "leave it out"),
    ("systemctl", SYSTEM, ""),
    ("touch", CHANGES, ""),
    ("trap", "runs code later", ""),
    ("truncate", CHANGES, ""),
    ("typeset", STATE, "assign without it"),
    ("ulimit", STATE, ""),
    ("umask", STATE, ""),
    ("unlink", CHANGES, ""),
    ("vi", ESCAPES, EDIT),
    ("vim", ESCAPES, EDIT),
    ("watch", STARTS, "run the command once"),
    ("wget", NETWORK, ""),
    ("yarn", BUILDS, ""),
    ("zip", CHANGES, ""),
];

/// Why this program is refused, and what to do.
pub(super) fn why(name: &str) -> Option<(&'static str, &'static str)> {
    let at = REFUSED.binary_search_by_key(&name, |(name, _, _)| name).ok()?;
    REFUSED.get(at).map(|(_, why, remedy)| (*why, *remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(REFUSED.is_sorted_by_key(|(name, _, _)| *name));
    }
}
