//! The paths in a patch as Codex applies it.
//!
//! A line that names a file may have blanks before it. In the text of a change such a line begins with a sign, so whatever
//! looks like one is taken for one: at worst a path too many is checked. A line of stars that is not known is refused.

/// What happens to a file.
pub(crate) const MARKERS: [&str; 4] = ["*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "];

/// Lines of stars that name no file.
const OTHERS: [&str; 3] = ["*** Begin Patch", "*** End Patch", "*** End of File"];

/// Every path that the patch writes.
///
/// # Errors
/// In words, what is not understood.
pub(crate) fn paths(patch: &str) -> Result<Vec<&str>, String> {
    let mut paths = Vec::new();
    let mut begins = false;
    for line in patch.lines() {
        let trimmed = line.trim();
        begins |= trimmed == OTHERS[0];
        match MARKERS.iter().find_map(|marker| trimmed.strip_prefix(marker)) {
            Some(path) => paths.push(path),
            None if !line.starts_with("***") || OTHERS.contains(&trimmed) => {}
            None => return Err(format!("`{}` is no line of a patch", trimmed.chars().take(60).collect::<String>())),
        }
    }
    match (begins, paths.is_empty()) {
        (true, false) => Ok(paths),
        (false, _) => Err("it does not begin as a patch".into()),
        (true, true) => Err("it names no file".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &str) {
        let got = paths(patch).map_or_else(|_| "refused".to_owned(), |paths| paths.join(" | "));
        assert_eq!(got, expected, "{patch}");
    }

    #[test]
    fn g5_paths_of_patches() {
        check("*** Begin Patch\n*** Add File: /home/u/proj/w.txt\n+W\n*** End Patch", "/home/u/proj/w.txt");
        check("*** Begin Patch\n*** Update File: a\n*** Move to: ../b\n@@\n-x\n+y\n*** End Patch", "a | ../b");
        check("*** Begin Patch\n*** Delete File: a b\n*** Add File: c\n*** End of File\n*** End Patch\n", "a b | c");
    }

    /// What hides a path from a reader of lines, and what only looks like one.
    #[test]
    fn g5_patches_in_disguise() {
        check("*** Begin Patch\r\n*** Add File: x\r\n+W\r\n*** End Patch\r\n", "x");
        check("*** Begin Patch\n  *** Add File: /etc/x\n+W\n*** End Patch", "/etc/x");
        check("*** Begin Patch\n\t*** Delete File: /etc/x \n*** End Patch", "/etc/x");
        check("<<'EOF'\n*** Begin Patch\n*** Add File: x\n*** End Patch\nEOF", "x");
        check("*** Begin Patch\n*** Update File: a\n *** Add File: b\n+*** Add File: c\n*** End Patch", "a | b");
        check("*** Begin Patch\n*** Update File: a\n+*** Begin Patch\n*** End Patch", "a");
        check("*** Begin Patch\n*** Add File:/etc/x\n*** End Patch", "refused");
        check("*** Begin Patch\n*** add file: /etc/x\n*** End Patch", "refused");
        check("*** Begin Patch\n***  Add File: /etc/x\n*** End Patch", "refused");
        check("*** Begin Patch\n*** Rename File: a\n*** End Patch", "refused");
        check("*** Begin Patch\n*** End Patch", "refused");
        check("--- a/x\n+++ b/x\n", "refused");
        check("", "refused");
    }
}
