//! Landlock without a view: what exists and is denied is left out of what is given.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use ringfence_plan::{
    Claim, Entry, LandlockPlan, LandlockRule, LayerName, Plan, Rights, Shortfall, Withheld, complement,
};
use ringfence_surface::AbsPath;

use crate::store::Session;
use crate::walk::{Walked, os_path};

/// Landlock on the host's own files: what exists and is denied is left out, and temporary files are the session's.
pub(super) fn without_denied(plan: &Plan, walked: &mut Walked, session: &Session) -> (LandlockPlan, Vec<Withheld>) {
    let processes = AbsPath::root().join("proc");
    let denied = walked.findings.denied.iter().map(|(path, _)| path.clone());
    let (kept, denied): (Vec<AbsPath>, Vec<AbsPath>) = denied.partition(|path| path.is_within(&processes));
    let reason = "without all of /proc, processes that start later would not see themselves";
    walked.shortfalls.extend(kept.iter().map(|path| Shortfall {
        claim: Claim::Denied { pattern: path.to_string() },
        layer: LayerName::Landlock,
        reason: reason.to_owned(),
    }));
    let list = |dir: &AbsPath| {
        let entries = fs::read_dir(os_path(dir)).into_iter().flatten().flatten();
        let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        entries.map(|entry| Entry { is_link: is_link(&entry), name: entry.file_name().into_vec() }).collect()
    };
    let (mut rules, withheld) = complement(&plan.landlock.rules, &denied, list);
    rules.push(LandlockRule { path: session.dir().join("tmp"), rights: Rights::All });
    let withheld = [plan.landlock.withheld.clone(), withheld].concat();
    (LandlockPlan { rules, ..plan.landlock.clone() }, withheld)
}
