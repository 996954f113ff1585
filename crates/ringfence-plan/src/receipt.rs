//! What holds in a session, claim by claim: what was asked, laid beside what stands.

use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Effect, Governance, Sense, Surface};

use crate::broker_unavailable::BrokerUnavailable;
use crate::claim::{Claim, LayerName, Shortfall};
use crate::features::{Feature, FeatureFindings, NOT_GUARDED};
use crate::landlock::{Fares, Ground, LandlockPlan, Withheld, fares};
use crate::rung::Rung;

/// How a claim fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// These layers hold it, each on its own.
    By(Vec<LayerName>),
    /// Nobody does.
    Not(Shortfall),
}

/// One claim and how it fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptLine {
    /// What was asked.
    pub claim: Claim,
    /// How it fared.
    pub kept: Kept,
}

/// What holds in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// What the fence is built of; nothing where the session governs itself.
    pub rung: Option<Rung>,
    /// One line for each claim.
    pub lines: Vec<ReceiptLine>,
    /// What the Surface gives and this fence does not.
    pub withheld: Vec<Withheld>,
}

impl Receipt {
    /// The claims that nobody holds.
    pub fn shortfalls(&self) -> impl Iterator<Item = &Shortfall> {
        self.lines.iter().filter_map(|line| match &line.kept {
            Kept::Not(short) => Some(short),
            Kept::By(_) => None,
        })
    }
}

/// What stands when a session is about to start.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    /// What the fence is built of.
    pub rung: Rung,
    /// The domain, if there is one. A domain counts only if the kernel handles every right that a claim needs: see [`LandlockPlan`].
    pub landlock: Option<&'a LandlockPlan>,
    /// What was found out about this host while the session was laid out. A missing feature is a shortfall where
    /// [`uses`](crate::features::uses) says so.
    pub features: &'a FeatureFindings,
    /// Whether anything that exists is masked or frozen.
    pub guards: bool,
    /// Whether somebody watches that they stay, and covers what appears later.
    pub watched: bool,
    /// Guarded files that have another name.
    pub linked: &'a [AbsPath],
    /// What counts the processes, if they are limited and nothing that the limit needs is missing.
    pub pids: LayerName,
    /// What whoever builds the fence found out: these claims are not held, whatever would hold them otherwise.
    pub found: &'a [Shortfall],
    /// What this fence does not give although the Surface does.
    pub withheld: &'a [Withheld],
    /// Whether calls that change files are brokered, or why they are not.
    pub broker: Result<(), BrokerUnavailable>,
}

/// How much of a receipt is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// Every claim.
    All,
    /// Those that fall short: enough for a start, and without a line for each of two thousand built-in rules.
    Short,
}

/// Lays what was asked beside what stands.
pub fn receipt(surface: &Surface, standing: &Standing<'_>, wanted: Lines) -> Receipt {
    // Mounts guard every path that exists, so only Landlock alone must look at each.
    let looks_at_paths = wanted == Lines::All || !standing.rung.has_view();
    let ground = match standing.rung {
        Rung::Native => Ground::View,
        Rung::Bwrap | Rung::Docker | Rung::Podman => Ground::ForeignView,
        Rung::LandlockOnly | Rung::Chroot => Ground::Host,
    };
    let domain = standing.landlock.filter(|_| looks_at_paths).map(|plan| fares(surface, ground, plan));
    let mut lines = Vec::new();
    let mut judge = |claim: Claim| {
        let found = standing.found.iter().find(|short| short.claim == claim);
        let kept = found.map_or_else(|| kept(&claim, standing, domain.as_ref()), |short| Kept::Not(short.clone()));
        if wanted == Lines::All || matches!(kept, Kept::Not(_)) {
            lines.push(ReceiptLine { claim, kept });
        }
    };
    whole_claims(surface).into_iter().for_each(&mut judge);
    if looks_at_paths {
        path_claims(surface).for_each(&mut judge);
    }
    if is_fenced(surface) {
        standing.linked.iter().map(|path| Claim::OneName { path: path.to_string() }).for_each(&mut judge);
        for short in standing.found {
            if !lines.iter().any(|line| line.claim == short.claim) {
                lines.push(ReceiptLine { claim: short.claim.clone(), kept: Kept::Not(short.clone()) });
            }
        }
    }
    Receipt { rung: Some(standing.rung), lines, withheld: standing.withheld.to_vec() }
}

/// What holds in a session that governs itself: what a fence would hold is not held, and that is said.
pub fn without_fence(surface: &Surface) -> Receipt {
    let short = |claim: Claim| {
        let reason = "the session governs itself: no layer of the operating system is applied".to_owned();
        let kept = match claim {
            Claim::CleanEnvironment => Kept::By(vec![LayerName::Environment]),
            Claim::Time { .. } => Kept::By(vec![LayerName::Processes]),
            _ => Kept::Not(Shortfall { claim: claim.clone(), layer: LayerName::Mounts, reason }),
        };
        ReceiptLine { claim, kept }
    };
    let lines = [Claim::CleanEnvironment].into_iter().chain(asked_of_the_system(surface)).map(short).collect();
    Receipt { rung: None, lines, withheld: Vec::new() }
}

/// Everything a Surface asks. A self-governing session asks nothing of the operating system.
pub fn claims(surface: &Surface) -> Vec<Claim> {
    whole_claims(surface).into_iter().chain(path_claims(surface)).collect()
}

fn is_fenced(surface: &Surface) -> bool {
    *surface.governance() == Governance::Fenced
}

/// What speaks of everything.
pub(crate) fn whole_claims(surface: &Surface) -> Vec<Claim> {
    let mut claims = vec![Claim::CleanEnvironment];
    if is_fenced(surface) {
        claims.extend(asked_of_the_system(surface));
    }
    claims
}

/// What only the operating system can hold.
fn asked_of_the_system(surface: &Surface) -> Vec<Claim> {
    let mut claims = Vec::new();
    if surface.view() == View::Surface {
        claims.extend([Claim::NothingElseIsReadable, Claim::NothingElseIsSeen]);
    }
    claims.push(Claim::NobodyElseIsSeen);
    claims.extend([Claim::NothingElseIsWritable, Claim::MetadataStays, Claim::SecondWall, Claim::FenceStays]);
    let has = |wanted: &[Effect]| {
        surface.rules().iter().any(|rule| wanted.contains(&rule.effect) && rule.sense == Sense::Rule)
    };
    let (denies, protects) = (has(&[Effect::Deny, Effect::Escape]), has(&[Effect::Protect]));
    claims.extend(denies.then_some(Claim::DeniedNames));
    claims.extend(denies.then_some(Claim::DeniedLater));
    // What is denied must not be made either.
    claims.extend((denies || protects).then_some(Claim::ProtectedLater));
    claims.extend((denies || protects).then_some(Claim::HeldWhenReplaced));
    let hosts = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    claims.extend([Claim::OnlyTheseHosts { hosts }, Claim::NoHostSockets, Claim::NoLaterSockets]);
    claims.extend([Claim::OutsidersOutOfReach, Claim::TreeEndsWithSession]);
    let caps = surface.caps();
    claims.extend(caps.memory.as_ref().map(|cap| Claim::Memory { bytes: cap.value }));
    claims.extend(caps.pids.as_ref().map(|cap| Claim::Processes { count: cap.value }));
    claims.extend(caps.wall.as_ref().map(|cap| Claim::Time { seconds: cap.value.as_secs() }));
    claims
}

/// What speaks of single paths.
fn path_claims(surface: &Surface) -> impl Iterator<Item = Claim> {
    let rules = surface.rules().iter().filter(|rule| rule.sense == Sense::Rule && is_fenced(surface));
    rules.filter_map(|rule| match rule.effect {
        Effect::Escape | Effect::Deny => Some(Claim::Denied { pattern: rule.pattern.to_string() }),
        Effect::Protect => Some(Claim::Protected { pattern: rule.pattern.to_string() }),
        Effect::Write(_) | Effect::Read(_) | Effect::Ask | Effect::ThirdParty | Effect::Withheld => None,
    })
}

fn kept(claim: &Claim, standing: &Standing<'_>, domain: Option<&Fares>) -> Kept {
    let short = |layer, reason: &str| Kept::Not(Shortfall { claim: claim.clone(), layer, reason: reason.to_owned() });
    if let Some(short) = standing.features.shortfall(standing.rung, claim) {
        return Kept::Not(short);
    }
    let is_view = standing.rung.has_view();
    match claim {
        Claim::CleanEnvironment => Kept::By(vec![LayerName::Environment]),
        Claim::NothingElseIsReadable
        | Claim::NothingElseIsSeen
        | Claim::NothingElseIsWritable
        | Claim::MetadataStays
        | Claim::Denied { .. }
        | Claim::Protected { .. } => by_walls(claim, standing.rung, domain),
        Claim::NobodyElseIsSeen if is_view => Kept::By(vec![LayerName::Processes]),
        Claim::NobodyElseIsSeen => {
            short(LayerName::Processes, "without a namespace it can be found out which processes there are")
        }
        Claim::SecondWall if standing.landlock.is_none() => short(LayerName::Landlock, "there is no Landlock domain"),
        Claim::SecondWall if is_view || standing.rung == Rung::Chroot => Kept::By(vec![LayerName::Landlock]),
        Claim::SecondWall => short(LayerName::Mounts, "without namespaces there are no mounts: Landlock stands alone"),
        Claim::FenceStays => Kept::By(vec![LayerName::Seccomp]),
        Claim::DeniedLater if standing.watched => {
            let inside = match standing.broker {
                Ok(()) => "none can be made inside",
                Err(_) => "the agent itself can make one, and read it",
            };
            let outside =
                "what another process makes outside is hidden once it is noticed, which takes some milliseconds";
            short(LayerName::Mounts, &format!("{inside}; {outside}"))
        }
        Claim::DeniedLater if standing.broker.is_ok() => {
            short(LayerName::Mounts, "none can be made inside; what another process makes outside is readable")
        }
        Claim::DeniedNames if is_view => Kept::By(vec![LayerName::Mounts]),
        Claim::DeniedNames => {
            let reason =
                "the directories above what is denied can be listed, and Landlock says that of everything below them";
            short(LayerName::Landlock, reason)
        }
        Claim::DeniedLater => {
            let reason = "a guard holds what exists at the start; what the agent itself or another process makes later is readable";
            short(LayerName::Mounts, reason)
        }
        Claim::ProtectedLater => match standing.broker {
            Ok(()) => Kept::By(vec![LayerName::Broker]),
            Err(why) => short(LayerName::Broker, &format!("{NOT_GUARDED}: {why}")),
        },
        Claim::HeldWhenReplaced if is_view && standing.guards && standing.watched => {
            let reason =
                "a guard falls off when an editor outside saves the file anew, and is put back some milliseconds later";
            short(LayerName::Mounts, reason)
        }
        Claim::HeldWhenReplaced if is_view && standing.guards => {
            short(LayerName::Mounts, "a guard falls off when an editor outside saves the file anew")
        }
        Claim::HeldWhenReplaced => Kept::By(vec![if is_view { LayerName::Mounts } else { LayerName::Landlock }]),
        Claim::OneName { .. } => short(
            LayerName::Mounts,
            "it has another name (a hard link) outside what was searched, by which it is not guarded",
        ),
        Claim::OnlyTheseHosts { .. } if is_view => Kept::By(vec![LayerName::Egress]),
        Claim::OnlyTheseHosts { .. } => Kept::By(vec![LayerName::Seccomp]),
        Claim::NoHostSockets => Kept::By(vec![if is_view { LayerName::Mounts } else { LayerName::Seccomp }]),
        Claim::NoLaterSockets if standing.broker.is_ok() => short(
            LayerName::Broker,
            "whoever connects is refused; a datagram can be sent to a socket that somebody outside makes later",
        ),
        Claim::NoLaterSockets if is_view => short(
            LayerName::Mounts,
            "what is hidden is what exists at the start; a socket made later can be reached, with what it hands over",
        ),
        Claim::NoLaterSockets => Kept::By(vec![LayerName::Seccomp]),
        Claim::OutsidersOutOfReach => {
            let keeps_signals = standing.landlock.is_some() && !standing.features.lacks(Feature::LandlockSignals);
            let walls = [(is_view, LayerName::Processes), (keeps_signals, LayerName::Landlock)];
            Kept::By(walls.into_iter().filter_map(|(holds, layer)| holds.then_some(layer)).collect())
        }
        Claim::TreeEndsWithSession => Kept::By(vec![LayerName::Processes]),
        Claim::Memory { .. } => Kept::By(vec![LayerName::Cgroup]),
        Claim::Processes { .. } => Kept::By(vec![standing.pids]),
        Claim::Time { .. } => Kept::By(vec![LayerName::Processes]),
    }
}

/// What mounts and Landlock say of files.
fn by_walls(claim: &Claim, rung: Rung, domain: Option<&Fares>) -> Kept {
    let carries = domain.is_some_and(|fares| fares.carried.contains(claim));
    if rung.has_view() {
        let second = carries.then_some(LayerName::Landlock);
        return Kept::By([LayerName::Mounts].into_iter().chain(second).collect());
    }
    if rung == Rung::Chroot {
        // In the root is what was put there, and the work; only of that the domain must say something.
        let second = carries.then_some(LayerName::Landlock);
        match claim {
            // Where something in the root is denied, protected or the worker's own, whoever builds the fence says so.
            Claim::NothingElseIsReadable
            | Claim::NothingElseIsSeen
            | Claim::NothingElseIsWritable
            | Claim::MetadataStays => {
                return Kept::By([LayerName::Root].into_iter().chain(second).collect());
            }
            _ => {}
        }
    }
    let said = domain.and_then(|fares| fares.shortfalls.iter().find(|short| short.claim == *claim));
    match (carries, said) {
        (true, _) => Kept::By(vec![LayerName::Landlock]),
        (false, Some(short)) => Kept::Not(short.clone()),
        (false, None) => Kept::Not(Shortfall {
            claim: claim.clone(),
            layer: LayerName::Landlock,
            reason: "this kernel has no Landlock".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::features::{Finding, Without, uses};
    use crate::landlock::landlock;

    /// The claims of a receipt that are not held, by their short names, with the reasons.
    fn lost(surface: &Surface, rung: Rung, features: &FeatureFindings) -> BTreeSet<(&'static str, String)> {
        let ground = match rung {
            Rung::Native => Ground::View,
            Rung::Bwrap | Rung::Docker | Rung::Podman => Ground::ForeignView,
            Rung::LandlockOnly | Rung::Chroot => Ground::Host,
        };
        let plan = landlock(surface, ground);
        let standing = Standing {
            rung,
            landlock: Some(&plan).filter(|_| !features.lacks(Feature::LandlockFiles)),
            features,
            guards: true,
            watched: false,
            linked: &[],
            pids: LayerName::Cgroup,
            found: &[],
            withheld: &[],
            broker: match (rung, features.lacks(Feature::SeccompListener)) {
                (Rung::Native, false) => Ok(()),
                (Rung::Native, true) => Err(BrokerUnavailable::NoListener),
                _ => Err(BrokerUnavailable::Backend),
            },
        };
        let receipt = receipt(surface, &standing, Lines::Short);
        receipt.shortfalls().map(|short| (short.claim.key(), short.reason.clone())).collect()
    }

    /// Every claim that a backend does not keep where a feature is missing, written down a second time.
    const LOSSES: &[(Rung, Feature, &[&str])] = &[
        (Rung::Native, Feature::LandlockFiles, &["second-wall"]),
        (Rung::Native, Feature::SeccompListener, &["protected-later"]),
        (Rung::Native, Feature::MemoryCgroup, &["memory"]),
        (Rung::Bwrap, Feature::LandlockFiles, &["second-wall"]),
        (Rung::Bwrap, Feature::MemoryCgroup, &["memory"]),
        (Rung::LandlockOnly, Feature::LandlockSignals, &["outsiders", "tree"]),
        (Rung::LandlockOnly, Feature::MemoryCgroup, &["memory"]),
        (Rung::LandlockOnly, Feature::PidsCgroup, &["pids"]),
        (Rung::Chroot, Feature::LandlockSignals, &["outsiders", "tree"]),
        (Rung::Chroot, Feature::MemoryCgroup, &["memory"]),
        (Rung::Chroot, Feature::PidsCgroup, &["pids"]),
        (Rung::Docker, Feature::LandlockFiles, &["second-wall"]),
        (Rung::Docker, Feature::MemoryCgroup, &["memory"]),
        (Rung::Docker, Feature::PidsCgroup, &["pids"]),
        (Rung::Podman, Feature::LandlockFiles, &["second-wall"]),
        (Rung::Podman, Feature::MemoryCgroup, &["memory"]),
        (Rung::Podman, Feature::PidsCgroup, &["pids"]),
    ];

    /// I1: a missing feature costs exactly the claims that the table lists, each with the reason that was found.
    #[test]
    fn i1_a_missing_feature_costs_what_the_table_says() {
        let surface = crate::mounts::tests::surface("[limits]\nmemory = \"1GiB\"\npids = 64\n");
        for rung in Rung::ALL {
            let mut whole = FeatureFindings::untried();
            uses(*rung).iter().for_each(|using| whole.note(using.feature, Finding::present("")));
            let before: BTreeSet<&str> = lost(&surface, *rung, &whole).into_iter().map(|(key, _)| key).collect();
            for using in uses(*rung).iter().filter(|using| using.without != Without::NoStart) {
                let mut features = whole.clone();
                features.note(using.feature, Finding::missing("it is not there"));
                let after = lost(&surface, *rung, &features);
                let more: BTreeSet<&str> =
                    after.iter().map(|(key, _)| *key).filter(|key| !before.contains(key)).collect();
                let losses = if let Without::Shortfalls(losses) = using.without { losses } else { &[] };
                let written = LOSSES.iter().find(|(on, feature, _)| (on, feature) == (rung, &using.feature));
                let written: BTreeSet<&str> = written.iter().flat_map(|(_, _, keys)| keys.iter().copied()).collect();
                assert_eq!(more, written, "{rung}: {using:?}");
                assert_eq!(more, losses.iter().map(|loss| loss.claim).collect(), "{rung}: {using:?}");
                for loss in losses {
                    let reason = format!("{}: it is not there", loss.consequence);
                    assert!(after.contains(&(loss.claim, reason)), "{rung}: {loss:?}: {after:?}");
                }
                // An answer that did not come is no reason to report a loss: the start itself finds out.
                features.note(using.feature, Finding::unknown("late"));
                let after: BTreeSet<&str> = lost(&surface, *rung, &features).into_iter().map(|(key, _)| key).collect();
                assert_eq!(after, before, "{rung}: {using:?}");
            }
        }
    }
}
