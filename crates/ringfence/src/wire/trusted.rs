//! What was trusted, as it is kept on the disk.

use ringfence_surface::{AbsPath, Layer};
use serde::{Deserialize, Serialize};

use super::{Bytes, SCHEMA};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireTrusted {
    schema: u32,
    files: Vec<(Bytes, String)>,
}

impl WireTrusted {
    pub(crate) fn new(layers: &[Layer]) -> Self {
        let file = |layer: &Layer| (Bytes::new(layer.path.as_bytes()), layer.text.text.clone());
        Self { schema: SCHEMA, files: layers.iter().map(file).collect() }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Each file and its text; nothing when this is no record of ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Vec<(AbsPath, String)>> {
        let wire: Self = serde_json::from_slice(bytes).ok()?;
        let file = |(path, text): (Bytes, String)| Some((AbsPath::lexical(&path.into_bytes()?).ok()?, text));
        if wire.schema == SCHEMA { wire.files.into_iter().map(file).collect() } else { None }
    }
}
