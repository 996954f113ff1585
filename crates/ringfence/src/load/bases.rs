//! A policy file with everything it extends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_surface::policy::{Extension, MAX_POLICY_BYTES, PolicyFile};
use ringfence_surface::text::{Diagnostic, PolicyText, Spanned};
use ringfence_surface::{AbsPath, Layer, Level, PathRule, Trust, Via, follow};

use super::Loader;
use crate::error::Failure;
use crate::host::{os_path, read_bounded};

/// How deep files may extend each other.
const MAX_DEPTH: usize = 16;

/// A file preceded by everything it extends.
pub(super) fn with_bases(loader: &mut Loader<'_>, path: &Path, level: Level) -> Result<Vec<Layer>, Failure> {
    let path = loader.absolute(path)?;
    let mut walk = Walk { loader, level, chain: Vec::new(), layers: Vec::new() };
    walk.read(path, Via::Itself)?;
    Ok(walk.layers)
}

/// Reads a policy's text.
pub(super) fn read_text(path: &AbsPath) -> Result<Arc<PolicyText>, Failure> {
    let file = os_path(path);
    let bytes = read_bounded(file, MAX_POLICY_BYTES as u64)
        .map_err(|source| Failure::Read { path: PathBuf::from(file), source })?;
    PolicyText::new(path.as_bytes(), bytes).map_err(|said| Failure::Policy { said: vec![said] })
}

/// A walk from a file to what it extends.
struct Walk<'w, 'm> {
    loader: &'w mut Loader<'m>,
    level: Level,
    /// The files that are being read, each extending the next.
    chain: Vec<AbsPath>,
    /// Those that are read.
    layers: Vec<Layer>,
}

impl Walk<'_, '_> {
    fn read(&mut self, path: AbsPath, via: Via) -> Result<(), Failure> {
        let text = match self.loader.is_said(&path) {
            Some(text) => PolicyText::new(path.as_bytes(), text.as_bytes().to_vec())
                .map_err(|said| Failure::Policy { said: vec![said] }),
            None => read_text(&path),
        };
        let text = self.shielded(&path, text)?;
        let file = PolicyFile::parse(&text).map_err(|said| Failure::Policy { said });
        let file = self.shielded(&path, file)?;
        let dir = path.parent().unwrap_or_else(AbsPath::root);
        self.chain.push(path.clone());
        for extension in file.extends.iter().flatten() {
            let Extension::File(rule) = &extension.value else { continue };
            let base = self.base(rule, &dir).map_err(|why| refuse(extension, why))?;
            if self.layers.iter().all(|layer| layer.path != base) {
                self.read(base, Via::Extends)?;
            }
        }
        self.chain.pop();
        self.layers.push(Layer { level: self.level, via, file, text, path });
        Ok(())
    }

    /// An untrusted project may name any file as one to extend, a secret too: what is wrong with it is then not quoted.
    fn shielded<T>(&self, path: &AbsPath, result: Result<T, Failure>) -> Result<T, Failure> {
        let home = self.chain.first().and_then(AbsPath::parent);
        let is_elsewhere = home.is_some_and(|home| !path.is_within(&home));
        match result {
            Err(Failure::Policy { .. }) if is_elsewhere && self.level == Level::Project(Trust::Untrusted) => {
                Err(Failure::NotAPolicy { path: path.clone() })
            }
            other => other,
        }
    }

    /// The file that a rule names, if it can be extended from here.
    fn base(&mut self, rule: &PathRule, dir: &AbsPath) -> Result<AbsPath, String> {
        let unusable = |why: &dyn std::fmt::Display| format!("cannot be extended: {why}");
        let raw = rule.raw_path(dir, &self.loader.facts).map_err(|why| unusable(&why))?;
        let base = follow(dir, &raw, &mut self.loader.look).map_err(|why| unusable(&why))?.path;
        if self.chain.contains(&base) {
            let names: Vec<String> = self.chain.iter().map(ToString::to_string).collect();
            return Err(format!("files extend each other in a circle: {} → {base}", names.join(" → ")));
        }
        if self.chain.len() >= MAX_DEPTH {
            return Err(format!("files extend each other more than {MAX_DEPTH} deep"));
        }
        match os_path(&base) {
            path if path.is_file() => Ok(base),
            path if path.exists() => Err(format!("{base} is not a file")),
            _ => Err(format!("there is no {base}")),
        }
    }
}

fn refuse<T>(extension: &Spanned<T>, why: String) -> Failure {
    Failure::Policy { said: vec![Diagnostic::error(extension.place.clone(), why)] }
}
