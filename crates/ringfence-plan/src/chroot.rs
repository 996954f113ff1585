//! The steps by which a command gets a root of its own, in their order.

use std::fmt::Write as _;

use ringfence_surface::{AbsPath, Surface};

use crate::landlock::{Ground, LandlockRule, Rights, landlock};
use crate::seccomp::{Fence, SyscallAction, syscalls};

/// The steps, one on each line. `tree` is what becomes `/`; what the Surface gives outside of it is not there.
pub fn chroot(surface: &Surface, tree: &AbsPath) -> String {
    let mut text = format!("check {tree} against its manifest\nchroot {tree}\nchdir /\n");
    text.push_str("drop the bounding set, where the right to that is held\n");
    text.push_str("become whoever owns the work, where root starts it\ndrop every capability\n");
    let _ = writeln!(text, "chdir {}", surface.workdir());
    text.push_str("no_new_privs\n");
    text.push_str("landlock: read everything in the manifest, use its devices, write its places for temporary files\n");
    let plan = landlock(surface, Ground::Host);
    let is_inside = |rule: &&LandlockRule| rule.path.is_within(tree);
    for rule in plan.rules.iter().filter(is_inside) {
        let rights = match rule.rights {
            Rights::List => "list",
            Rights::Read => "read",
            Rights::Device => "use",
            Rights::All => "write",
        };
        let _ = writeln!(text, "landlock: {rights} {}", rule.path);
    }
    text.push_str("landlock: without what is denied and exists in it\n");
    text.push_str("landlock: signals and abstract sockets stay inside\n");
    let rules = syscalls(Fence::LandlockOnly);
    let mut refused: Vec<&str> =
        rules.iter().filter(|rule| rule.action != SyscallAction::Allow).map(|rule| rule.name).collect();
    refused.dedup();
    let _ = writeln!(text, "seccomp: refuse, always or with some arguments: {}", refused.join(" "));
    text.push_str("execve\n");
    text
}
