//! A plan as JSON.

use ringfence_plan::{MountAccess, MountOp, Plan};
use ringfence_surface::policy::{Tier, View};
use ringfence_surface::{Effect, Governance, Resolved, Rule, Sense, Surface};
use serde::Serialize;

use super::{Bytes, SCHEMA, WireDiagnostic, WireOmission, WireSource};

#[derive(Debug, Serialize)]
pub(crate) struct WirePlan {
    schema: u32,
    #[serde(flatten)]
    surface: WireSurface,
    mounts: Vec<WireMount>,
    skipped: Vec<WireSkipped>,
    claims: Vec<String>,
    watches: Vec<WireValue<String>>,
    omissions: Vec<WireOmission>,
    diagnostics: Vec<WireDiagnostic>,
}

/// What may be touched.
#[derive(Debug, Serialize)]
pub(crate) struct WireSurface {
    root: Bytes,
    workdir: Bytes,
    view: &'static str,
    tier: &'static str,
    self_governing: bool,
    packs: Vec<&'static str>,
    rules: Vec<WireRule>,
    hosts: Vec<WireValue<String>>,
    private: Vec<WireValue<String>>,
    host_ports: Vec<WireValue<u16>>,
    sockets: Vec<WireValue<Bytes>>,
    inject: Vec<WireValue<String>>,
    env: Vec<WireValue<String>>,
    limits: WireLimits,
}

#[derive(Debug, Serialize)]
struct WireRule {
    effect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    exception: bool,
    pattern: String,
    text: String,
    source: WireSource,
}

#[derive(Debug, Serialize)]
struct WireValue<T> {
    value: T,
    source: WireSource,
}

#[derive(Debug, Serialize)]
struct WireLimits {
    memory_bytes: Option<u64>,
    pids: Option<u32>,
    wall_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
enum WireMount {
    Bind { path: Bytes, access: &'static str, role: &'static str },
    Link { path: Bytes, target: Bytes },
    Private { path: Bytes, access: &'static str },
    Pin { path: Bytes },
    Cover { path: Bytes },
    Mask { path: Bytes },
    Freeze { path: Bytes },
    Own { path: Bytes, name: String },
    Rebuilt { path: Bytes },
    Program { path: Bytes, source: Bytes },
    Hollow { path: Bytes },
}

#[derive(Debug, Serialize)]
struct WireSkipped {
    pattern: String,
    source: String,
    why: &'static str,
}

impl WirePlan {
    pub(crate) fn new(resolved: &Resolved, plan: &Plan) -> Self {
        let surface = &resolved.surface;
        Self {
            schema: SCHEMA,
            surface: WireSurface::new(surface),
            mounts: plan.mounts.iter().map(wire_mount).collect(),
            skipped: plan
                .skipped
                .iter()
                .map(|s| WireSkipped { pattern: s.pattern.clone(), source: s.source.clone(), why: s.why.words() })
                .collect(),
            claims: ringfence_plan::claims(surface).iter().map(ToString::to_string).collect(),
            watches: resolved.watches.iter().map(|e| value(e.value.to_string(), &e.source)).collect(),
            omissions: resolved.omissions.iter().map(WireOmission::new).collect(),
            diagnostics: resolved.diagnostics.iter().map(WireDiagnostic::new).collect(),
        }
    }
}

impl WireSurface {
    pub(crate) fn new(surface: &Surface) -> Self {
        let reach = surface.reach();
        let caps = surface.caps();
        Self {
            root: Bytes::new(surface.root().as_bytes()),
            workdir: Bytes::new(surface.workdir().as_bytes()),
            view: view_word(surface),
            tier: tier_word(surface),
            self_governing: matches!(surface.governance(), Governance::SelfGoverning(_)),
            packs: surface.packs().to_vec(),
            rules: surface.rules().iter().map(WireRule::new).collect(),
            hosts: reach.hosts.iter().map(|e| value(e.value.to_string(), &e.source)).collect(),
            private: reach.private.iter().map(|e| value(e.value.to_string(), &e.source)).collect(),
            host_ports: reach.host_ports.iter().map(|e| value(e.value, &e.source)).collect(),
            sockets: reach.sockets.iter().map(|e| value(Bytes::new(e.value.as_bytes()), &e.source)).collect(),
            inject: reach.inject.iter().map(|e| value(e.value.to_string(), &e.source)).collect(),
            env: surface.env().iter().map(|e| value(e.value.as_str().to_owned(), &e.source)).collect(),
            limits: WireLimits {
                memory_bytes: caps.memory.as_ref().map(|cap| cap.value),
                pids: caps.pids.as_ref().map(|cap| cap.value),
                wall_seconds: caps.wall.as_ref().map(|cap| cap.value.as_secs()),
            },
        }
    }
}

fn value<T>(value: T, source: &ringfence_surface::Source) -> WireValue<T> {
    WireValue { value, source: WireSource::new(source) }
}

/// The word for the view.
pub(crate) fn view_word(surface: &Surface) -> &'static str {
    match surface.view() {
        View::Surface => "surface",
        View::Host => "host",
    }
}

/// The word for the tier.
pub(crate) fn tier_word(surface: &Surface) -> &'static str {
    match surface.tier() {
        Tier::Development => "development",
        Tier::Production => "production",
    }
}

/// The word for what a mount permits.
pub(crate) fn access_word(access: MountAccess) -> &'static str {
    match access {
        MountAccess::ReadOnly => "ro",
        MountAccess::ReadWrite => "rw",
    }
}

impl WireRule {
    fn new(rule: &Rule) -> Self {
        let (effect, role) = match rule.effect {
            Effect::Escape => ("escape", None),
            Effect::Deny => ("deny", None),
            Effect::Protect => ("protect", None),
            Effect::Write(role) => ("write", Some(role.word())),
            Effect::Read(role) => ("read", Some(role.word())),
            Effect::Ask => ("ask", None),
            Effect::ThirdParty => ("third-party", None),
            Effect::Withheld => ("withheld", None),
        };
        Self {
            effect,
            role,
            exception: rule.sense == Sense::Exception,
            pattern: rule.pattern.to_string(),
            text: rule.text.to_string(),
            source: WireSource::new(&rule.source),
        }
    }
}

fn wire_mount(op: &MountOp) -> WireMount {
    match op {
        MountOp::Bind { path, access, role } => {
            WireMount::Bind { path: Bytes::new(path.as_bytes()), access: access_word(*access), role: role.word() }
        }
        MountOp::Link { path, target } => {
            WireMount::Link { path: Bytes::new(path.as_bytes()), target: Bytes::new(target) }
        }
        MountOp::Private { place, access } => {
            WireMount::Private { path: Bytes::new(place.path().as_bytes()), access: access_word(*access) }
        }
        MountOp::Pin { path } => WireMount::Pin { path: Bytes::new(path.as_bytes()) },
        MountOp::Cover { path } => WireMount::Cover { path: Bytes::new(path.as_bytes()) },
        MountOp::Mask { path, .. } => WireMount::Mask { path: Bytes::new(path.as_bytes()) },
        MountOp::Freeze { path } => WireMount::Freeze { path: Bytes::new(path.as_bytes()) },
        MountOp::Own { path, name } => WireMount::Own { path: Bytes::new(path.as_bytes()), name: name.clone() },
        MountOp::Rebuilt { path } => WireMount::Rebuilt { path: Bytes::new(path.as_bytes()) },
        MountOp::Program { path, source } => {
            WireMount::Program { path: Bytes::new(path.as_bytes()), source: Bytes::new(source.as_bytes()) }
        }
        MountOp::Hollow { path } => WireMount::Hollow { path: Bytes::new(path.as_bytes()) },
    }
}
