//! Files beneath a root, on a tree that belongs to somebody hostile.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod atomic;
#[cfg(test)]
mod escape;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod old_kernel;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod race;
