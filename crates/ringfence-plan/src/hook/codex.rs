//! The tools of Codex. What it types into a shell that is open reaches no hook at all.

use super::tools::Kind::{self, Plain};
use super::tools::{READ, Tool, tools};

pub(crate) const TOOLS: &[Tool] = tools! {
    "Bash" { "command": Kind::Command, "workdir": Kind::Root }
    "apply_patch" { "command": Kind::Patch }
    "update_plan" { "plan": Plain, "explanation": Plain }
    "view_image" { "path": READ }
};
