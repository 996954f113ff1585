//! The broker: calls that change files are carried out for the agent, by name, at the moment they are made.

pub mod wire;
