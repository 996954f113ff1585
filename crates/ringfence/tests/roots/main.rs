//! Roots by the command line: how they are made and removed, what leads out of them, who sees whom; and the profiles of the host's
//! own security modules, read by their real compilers.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod commands;
mod escapes;
mod ground;
mod profiles;
