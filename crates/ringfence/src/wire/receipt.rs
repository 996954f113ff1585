//! A receipt as JSON.

use ringfence_plan::{Kept, Receipt, Rung};
use serde::Serialize;

use super::SCHEMA;

#[derive(Debug, Serialize)]
pub(crate) struct WireReceipt {
    schema: u32,
    session: String,
    backend: &'static str,
    claims: Vec<WireLine>,
    /// What the policy gives and this fence does not.
    withheld: Vec<WireWithheld>,
}

#[derive(Debug, Serialize)]
struct WireLine {
    claim: String,
    /// Its kind, which `--allow-shortfall` takes.
    name: &'static str,
    holds: bool,
    /// The layers that hold it, each on its own; or the one that does not.
    layers: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct WireWithheld {
    what: String,
    source: String,
    reason: &'static str,
}

impl WireReceipt {
    pub(crate) fn new(session: &str, receipt: &Receipt) -> Self {
        let line = |line: &ringfence_plan::ReceiptLine| {
            let (holds, layers, reason) = match &line.kept {
                Kept::By(layers) => (true, layers.iter().map(|layer| layer.word()).collect(), None),
                Kept::Not(short) => (false, vec![short.layer.word()], Some(short.reason.clone())),
            };
            WireLine { claim: line.claim.to_string(), name: line.claim.key(), holds, layers, reason }
        };
        let withheld = receipt.withheld.iter().map(|one| WireWithheld {
            what: one.pattern.clone(),
            source: one.source.clone(),
            reason: one.reason,
        });
        Self {
            schema: SCHEMA,
            session: session.to_owned(),
            backend: receipt.rung.map_or("none", Rung::word),
            claims: receipt.lines.iter().map(line).collect(),
            withheld: withheld.collect(),
        }
    }
}
