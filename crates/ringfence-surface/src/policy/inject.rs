//! Credentials that are added on the way out, as a policy writes them.

use std::collections::BTreeMap;

use super::node::Node;
use super::shape::{Schema, Shape, table};
use super::{EnvName, Network};
use crate::host::HostTarget;
use crate::text::{Diagnostic, Spanned, short};

table! {
    /// A header that is added to the requests for a host on the way out. Inside, the variable holds a placeholder, and `http://` is spoken to the host.
    pub struct Inject {
        /// The header, as in `x-api-key` or `authorization`.
        header: Spanned<HeaderName>,
        /// The variable of the caller that holds the secret. It does not pass.
        from_env: Spanned<EnvName>,
        /// What stands before the secret in the header, as in `Bearer `.
        prefix: Option<Spanned<HeaderText>>,
    }
}

/// The name of a header that may carry a credential, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName(String);

impl HeaderName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Headers that say where a request ends or whom it is for. None of them carries a credential.
pub const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Shape for HeaderName {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let name = String::read(node, said)?.to_ascii_lowercase();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        let bad = if !is_name {
            "the name of a header is needed here: letters, digits and `-`"
        } else if FRAMING.contains(&name.as_str()) {
            "this header says how a request is read; it carries no credential"
        } else {
            return Some(Self(name));
        };
        said.push(Diagnostic::error(node.place.clone(), bad));
        None
    }

    fn schema() -> Schema {
        Schema::String { about: "The name of a header." }
    }
}

/// A part of a header's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderText(String);

impl HeaderText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shape for HeaderText {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        if text.bytes().all(|b| (b' '..=b'~').contains(&b)) && !text.starts_with(' ') {
            return Some(Self(text));
        }
        said.push(Diagnostic::error(
            node.place.clone(),
            "this cannot begin a header's value: printable ASCII is needed",
        ));
        None
    }

    fn schema() -> Schema {
        Schema::String { about: "Printable ASCII." }
    }
}

impl Network {
    /// A credential is for one host, by its name.
    pub(super) fn check_inject(&self, said: &mut Vec<Diagnostic>) {
        for (host, inject) in self.inject.iter().flat_map(BTreeMap::iter) {
            let is_one = HostTarget::new(host, 443).is_ok_and(|target| target.address().is_none());
            if !is_one {
                let message = format!("`{}` is not the name of one host", short(host));
                let help = "a credential is for one host: no wildcard, no address, no port";
                said.push(Diagnostic::error(inject.header.place.clone(), message).help(help));
            }
        }
    }
}
