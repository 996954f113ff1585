//! A diagnosis as JSON.

use ringfence_plan::features::Finding;
use ringfence_session::doctor::{Action, Answer, Costs, Diagnosis, Host, Need, Remedy, Row, Way};
use ringfence_session::probe::{Caller, Surroundings};
use serde::Serialize;

use super::{Bytes, SCHEMA};

#[derive(Debug, Serialize)]
pub(crate) struct WireDoctor {
    schema: u32,
    verdict: WireVerdict,
    host: WireOn,
    rungs: Vec<WireRung>,
    beside: Vec<WireFeature>,
    remedies: Vec<WireRemedy>,
}

#[derive(Debug, Serialize)]
struct WireVerdict {
    /// `native`, `bwrap`, `landlock`, or nothing when `run` refuses.
    rung: Option<&'static str>,
    /// Native, with its second wall: the exit code is 0.
    full: bool,
    words: String,
    because: Vec<String>,
    lost: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct WireOn {
    kernel: String,
    system: String,
    root: bool,
    /// `host`, `container` or `ringfence`.
    surroundings: &'static str,
    /// The step of a native start that failed, and the kernel's number for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<WireBlocked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    landlock: Option<WireLandlock>,
}

#[derive(Debug, Serialize)]
struct WireBlocked {
    step: &'static str,
    errno: i32,
    cause: String,
}

/// What Landlock reports and what it takes, as the kernel's own bits.
#[derive(Debug, Serialize)]
struct WireLandlock {
    abi: u32,
    fs: u64,
    net: u64,
    scoped: u64,
    errata: Option<u32>,
}

#[derive(Debug, Serialize)]
struct WireRung {
    name: &'static str,
    works: bool,
    /// `works`, `fails` or `unknown`.
    answer: &'static str,
    features: Vec<WireFeature>,
}

#[derive(Debug, Serialize)]
struct WireFeature {
    name: &'static str,
    carries: &'static str,
    /// `works`, `missing`, `unknown` or `untried`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// `rung`, `claim` or `nothing`.
    costs: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct WireRemedy {
    name: &'static str,
    title: String,
    needed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<WireAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum WireAction {
    Write { path: Bytes, text: String },
    Run { command: Vec<String> },
}

impl WireDoctor {
    pub(crate) fn new(host: &Host, diagnosis: &Diagnosis, remedies: &[Remedy]) -> Self {
        let verdict = &diagnosis.verdict;
        let rungs = diagnosis.groups.iter().map(|group| WireRung {
            name: group.rung.word(),
            works: group.answer == Answer::Works,
            answer: match group.answer {
                Answer::Works => "works",
                Answer::Fails => "fails",
                Answer::Unknown => "unknown",
            },
            features: group.features.iter().map(feature).collect(),
        });
        Self {
            schema: SCHEMA,
            verdict: WireVerdict {
                rung: verdict.rung.map(|rung| rung.word()),
                full: verdict.is_full,
                words: verdict.to_string(),
                because: verdict.because.clone(),
                lost: verdict.lost.clone(),
            },
            host: on(host),
            rungs: rungs.collect(),
            beside: diagnosis.beside.iter().map(feature).collect(),
            remedies: remedies.iter().map(remedy).collect(),
        }
    }
}

fn on(host: &Host) -> WireOn {
    let blocked = host.native.as_ref().err().map(|blocked| WireBlocked {
        step: blocked.step.call(),
        errno: blocked.errno.raw_os_error(),
        cause: blocked.cause.to_string(),
    });
    let landlock = host.landlock.ok().map(|landlock| WireLandlock {
        abi: landlock.supported.abi,
        fs: landlock.supported.fs.bits(),
        net: landlock.supported.net.bits(),
        scoped: landlock.supported.scoped.bits(),
        errata: landlock.errata,
    });
    WireOn {
        kernel: host.kernel.clone(),
        system: host.system.name.clone(),
        root: host.signs.caller == Caller::Root,
        surroundings: match host.signs.surroundings {
            Surroundings::Host => "host",
            Surroundings::Container => "container",
            Surroundings::Ringfence => "ringfence",
        },
        blocked,
        landlock,
    }
}

fn feature(row: &Row) -> WireFeature {
    let (state, detail) = match &row.finding {
        Finding::Present { detail } => ("works", Some(detail.clone()).filter(|detail| !detail.is_empty())),
        Finding::Missing { reason, .. } => ("missing", Some(reason.clone())),
        Finding::Unknown { reason, .. } => ("unknown", Some(reason.clone())),
        Finding::Untried => ("untried", None),
    };
    let costs = match row.costs {
        Costs::Rung => "rung",
        Costs::Claim => "claim",
        Costs::Nothing => "nothing",
    };
    let Row { name, carries, remedy, .. } = row;
    WireFeature { name, carries, state, detail, costs, remedy: remedy.clone() }
}

fn remedy(remedy: &Remedy) -> WireRemedy {
    let (steps, by_hand) = match &remedy.way {
        Way::Steps(steps) => (steps.iter().map(action).collect(), None),
        Way::ByHand(advice) => (Vec::new(), Some(advice.clone())),
    };
    WireRemedy {
        name: remedy.name,
        title: remedy.title.clone(),
        needed: remedy.need == Need::Needed,
        steps,
        by_hand,
        caution: remedy.caution.clone(),
    }
}

fn action(action: &Action) -> WireAction {
    match action {
        Action::Write { path, text } => {
            WireAction::Write { path: Bytes::new(path.as_os_str().as_encoded_bytes()), text: text.clone() }
        }
        Action::Run { program, arguments } => {
            WireAction::Run { command: [vec![(*program).to_owned()], arguments.clone()].concat() }
        }
    }
}
