//! A receipt in words, and its place on disk.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use ringfence_plan::{Claim, Kept, LayerName, Receipt, Rung, Shortfall};
use ringfence_session::audit::What;
use ringfence_surface::AbsPath;

use crate::error::Failure;
use crate::host::os_path;
use crate::wire::receipt::WireReceipt;

/// How many receipts are kept.
const KEPT: usize = 200;

/// How many files with another name are told one by one, where nobody asked for the receipt.
const FEW_NAMES: usize = 5;

/// Claims that fall short, each with the name that accepts it. Those of one kind and for one reason share a line. A home with a
/// toolchain in it may have thousands of files with another name: nobody would see the other lines.
pub(super) fn grouped<'r>(shortfalls: impl IntoIterator<Item = &'r Shortfall>) -> Vec<String> {
    let mut names = 0;
    let is_told = |short: &&Shortfall| {
        names += usize::from(matches!(short.claim, Claim::OneName { .. }));
        names <= FEW_NAMES || !matches!(short.claim, Claim::OneName { .. })
    };
    let (told, untold): (Vec<&Shortfall>, Vec<&Shortfall>) = shortfalls.into_iter().partition(is_told);
    let more = untold
        .first()
        .map(|short| format!("no other name of {} more [{}]; the receipt names them", untold.len(), short.claim.key()));
    all(told).into_iter().chain(more).collect()
}

/// The same, with each file that has another name.
fn all<'r>(shortfalls: impl IntoIterator<Item = &'r Shortfall>) -> Vec<String> {
    let mut groups: Vec<(&Shortfall, usize)> = Vec::new();
    for short in shortfalls {
        // Each file with another name is one that somebody must look at.
        let is_own = matches!(short.claim, Claim::OneName { .. });
        let like = |known: &&mut (&Shortfall, usize)| {
            !is_own && known.0.claim.key() == short.claim.key() && known.0.reason == short.reason
        };
        match groups.iter_mut().find(like) {
            Some((_, more)) => *more += 1,
            None => groups.push((short, 0)),
        }
    }
    let line = |(short, more): (&Shortfall, usize)| {
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more} [{}]: {}", short.claim, short.claim.key(), short.reason)
    };
    groups.into_iter().map(line).collect()
}

/// What is said at a start: what no mount can hold against whoever works outside meanwhile is one line, since every start has
/// it and nobody can change it. Everything else has its own.
pub(super) fn at_a_start(receipt: &Receipt) -> Vec<String> {
    let is_brokered = !receipt.shortfalls().any(|short| short.claim == Claim::ProtectedLater);
    let is_usual = |short: &&Shortfall| match short.claim {
        Claim::HeldWhenReplaced | Claim::NoLaterSockets => true,
        Claim::DeniedLater => is_brokered,
        _ => false,
    };
    let (usual, own): (Vec<&Shortfall>, Vec<&Shortfall>) = receipt.shortfalls().partition(is_usual);
    let keys: Vec<&str> = usual.iter().map(|short| short.claim.key()).collect();
    let usual = format!(
        "against what somebody outside makes or replaces meanwhile [{}]; `--receipt` says more",
        keys.join(", ")
    );
    (!keys.is_empty()).then_some(usual).into_iter().chain(grouped(own)).collect()
}

/// What the policy gives and this fence does not, as far as anybody reads on.
pub(super) fn few_withheld(receipt: &Receipt) -> Vec<String> {
    const FEW: usize = 3;
    let mut lines: Vec<String> =
        receipt.withheld.iter().take(FEW).map(|one| format!("{}: {}", one.pattern, one.reason)).collect();
    if receipt.withheld.len() > FEW {
        lines.push(format!("and {} more, which `--receipt` shows", receipt.withheld.len() - FEW));
    }
    lines
}

/// Claim by claim; what speaks of single paths is counted where it holds.
pub(super) fn words(receipt: &Receipt) -> Vec<String> {
    let mut lines = vec![format!("ringfence: receipt ({})", receipt.rung.map_or("no fence", Rung::word))];
    let mut counted: Vec<(&str, &[LayerName], usize)> = Vec::new();
    for line in &receipt.lines {
        let of_a_path = match line.claim {
            Claim::Denied { .. } => Some("deny"),
            Claim::Protected { .. } => Some("protect"),
            _ => None,
        };
        match (&line.kept, of_a_path) {
            (Kept::By(layers), Some(kind)) => {
                match counted.iter_mut().find(|(known, by, _)| *known == kind && by == layers) {
                    Some((_, _, count)) => *count += 1,
                    None => counted.push((kind, layers, 1)),
                }
            }
            (Kept::By(layers), None) => lines.push(format!("  holds     {} ({})", line.claim, names(layers))),
            (Kept::Not(_), _) => {}
        }
    }
    lines.extend(all(receipt.shortfalls()).iter().map(|line| format!("  NOT HELD  {line}")));
    lines.extend(
        counted.iter().map(|(kind, layers, count)| format!("  holds     {kind}: {count} patterns ({})", names(layers))),
    );
    lines.extend(receipt.withheld.iter().map(|one| format!("  withheld  {}: {}", one.pattern, one.reason)));
    lines
}

fn names(layers: &[LayerName]) -> String {
    layers.iter().map(|layer| layer.word()).collect::<Vec<_>>().join(", ")
}

/// A receipt as the audit has it.
pub(super) fn event(receipt: &Receipt) -> What {
    What::Receipt {
        held: Some(receipt.lines.iter().filter(|line| matches!(line.kept, Kept::By(_))).count())
            .filter(|held| *held > 0),
        shortfalls: grouped(receipt.shortfalls()),
        withheld: receipt.withheld.iter().map(|one| format!("{}: {}", one.pattern, one.reason)).collect(),
    }
}

/// A receipt as it is kept.
pub(super) fn text(session: &str, receipt: &Receipt) -> Result<String, Failure> {
    serde_json::to_string_pretty(&WireReceipt::new(session, receipt)).map_err(|source| Failure::Json { source })
}

/// Keeps the text of a receipt among the last ones, and returns where.
pub(super) fn save(state: &AbsPath, session: &str, text: &str) -> Result<PathBuf, Failure> {
    let dir = state.join("receipts");
    let path = dir.child(format!("{session}.json").as_bytes());
    let write = || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(&dir))?;
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(os_path(&path))?;
        io::Write::write_all(&mut &file, text.as_bytes())?;
        let age = |entry: &fs::DirEntry| entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let entries = fs::read_dir(os_path(&dir))?.flatten();
        let mut names: Vec<_> = entries.map(|entry| (age(&entry), entry.file_name())).collect();
        names.sort();
        for (_, old) in names.iter().take(names.len().saturating_sub(KEPT)) {
            match fs::remove_file(os_path(&dir).join(old)) {
                // Another session that starts now has removed it.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    };
    write().map_err(|source| Failure::Write { path: os_path(&path).into(), source })?;
    Ok(os_path(&path).into())
}

#[cfg(test)]
mod tests {
    use ringfence_plan::ReceiptLine;

    use super::*;

    fn receipt(claims: Vec<Claim>) -> Receipt {
        let line = |claim: Claim| {
            let short = Shortfall { claim: claim.clone(), layer: LayerName::Mounts, reason: "why".to_owned() };
            ReceiptLine { claim, kept: Kept::Not(short) }
        };
        Receipt { rung: Some(Rung::Native), lines: claims.into_iter().map(line).collect(), withheld: Vec::new() }
    }

    #[test]
    fn what_every_start_lacks_is_one_line() {
        let usual = vec![Claim::DeniedLater, Claim::HeldWhenReplaced, Claim::NoLaterSockets];
        let said = at_a_start(&receipt(usual.clone()));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("[denied-later, replaced, sockets-later]"), "{said:?}");
        // What somebody asked for and does not get is said in full.
        let said = at_a_start(&receipt([usual.clone(), vec![Claim::SecondWall]].concat()));
        assert!(said.len() == 2 && said[1] == "a second wall behind the first [second-wall]: why", "{said:?}");
        // Without a broker what is denied can be made inside, which is no matter of others.
        let said = at_a_start(&receipt([usual, vec![Claim::ProtectedLater]].concat()));
        assert!(said.len() == 3 && said[1].contains("[denied-later]: why"), "{said:?}");
        assert!(at_a_start(&receipt(Vec::new())).is_empty());
    }

    #[test]
    fn a_thousand_files_with_another_name_leave_room_for_the_rest() {
        let names = (0..1000).map(|number| Claim::OneName { path: format!("/file{number}") });
        let receipt = receipt(names.chain([Claim::SecondWall]).collect());
        let said = at_a_start(&receipt);
        assert_eq!(said.len(), 7, "{said:?}");
        assert_eq!(said[0], "no other name of /file0 [one-name]: why");
        assert_eq!(said[5], "a second wall behind the first [second-wall]: why");
        assert_eq!(said[6], "no other name of 995 more [one-name]; the receipt names them");
        // Whoever asks is told all of them.
        assert_eq!(words(&receipt).iter().filter(|line| line.contains("[one-name]")).count(), 1000);
    }
}
