//! What this host can enforce, what each feature carries, and what can be done about what is missing.
//!
//! [`Host`] is gathered once, as plain data. The rest is a function of it: [`diagnose`] judges, [`remedies`] says what would put
//! it right, as commands and files. [`apply`] carries a remedy out, with the hands that it is given.

mod diagnosis;
mod findings;
mod fix;
mod host;
mod remedy;
mod start;
mod system;

pub use diagnosis::{Answer, Costs, Diagnosis, Group, Row, Verdict, diagnose, why_not_native};
pub use fix::{Change, FixError, Hands, apply};
pub use host::{Host, Started, Starts};
pub use remedy::{AGENT_USER, Action, NAMES, Need, Remedy, Way, remedies};
pub use start::try_start;
pub use system::{Packager, System};

#[cfg(test)]
mod invented;
