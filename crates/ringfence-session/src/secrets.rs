//! Credentials that stay outside: read from the caller's environment, added to requests by the way out, and replaced inside.

use ringfence_egress::Credential;
use ringfence_plan::{Rung, Withheld};
use ringfence_surface::Surface;

use crate::environment::Variables;

/// What a variable holds inside in the place of a secret.
const PLACEHOLDER: &[u8] = b"ringfence-injected";

/// Shorter ones would be found in what they have no part in.
const LEAST_SEARCHED: usize = 8;

/// The credentials of a session.
pub(crate) struct Secrets {
    pub(crate) credentials: Vec<Credential>,
    pub(crate) withheld: Vec<Withheld>,
    values: Vec<Vec<u8>>,
    names: Vec<Vec<u8>>,
}

impl Secrets {
    /// Reads them.
    pub(crate) fn read(surface: &Surface, rung: Rung, caller: &Variables) -> Self {
        let mut secrets = Self { credentials: Vec::new(), withheld: Vec::new(), values: Vec::new(), names: Vec::new() };
        for entry in &surface.reach().inject {
            let inject = &entry.value;
            let name = inject.variable.as_str().as_bytes();
            let secret = caller.get(name).filter(|value| !value.is_empty());
            secrets.names.push(name.to_vec());
            secrets.values.extend(secret.cloned());
            let value = secret.map(|secret| [inject.prefix.as_bytes(), secret].concat());
            let reason = match value.map(|value| Credential::new(&inject.host, &inject.header, value)) {
                _ if !rung.has_way_out() => "cannot be added without namespaces of our own",
                None => "the variable with the secret is not set",
                Some(None) => "the secret cannot stand in a header",
                Some(Some(credential)) => {
                    secrets.credentials.push(credential);
                    continue;
                }
            };
            secrets.withheld.push(Withheld { pattern: inject.to_string(), source: entry.source.to_string(), reason });
        }
        secrets
    }

    /// Replaces what is secret in the variables of the payload, under whatever name it stands there.
    pub(crate) fn hide(&self, variables: &mut Variables) {
        let is_secret = |held: &[u8]| {
            let searched = self.values.iter().filter(|value| value.len() >= LEAST_SEARCHED);
            searched.into_iter().any(|value| held.windows(value.len()).any(|part| part == value.as_slice()))
        };
        variables.retain(|_, held| !is_secret(held));
        variables.extend(self.names.iter().map(|name| (name.clone(), PLACEHOLDER.to_vec())));
    }
}
