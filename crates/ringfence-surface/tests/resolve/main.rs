//! From policy text and a host made of data to answers: what a Surface allows, and why.

mod agents;
mod host;
mod layers;
mod learn;
mod rules;
mod surface;
mod tighten;
mod untrusted;
