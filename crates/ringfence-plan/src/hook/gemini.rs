//! The tools of Gemini CLI, and of Qwen Code, which has most of them.

use super::tools::Kind::{self, Plain};
use super::tools::{READ, Tool, WRITE, tools};

/// Both have these.
pub(crate) const SHARED: &[Tool] = tools! {
    "glob" { "pattern": Kind::Names, "dir_path": Kind::Root, "path": Kind::Root }
    "grep_search" { "pattern": Plain, "dir_path": Kind::Root, "path": Kind::Root, "include_pattern": Kind::Names,
        "exclude_pattern": Plain, "include": Kind::Names, "glob": Kind::Names }
    "list_directory" { "dir_path": Kind::Root, "path": Kind::Root, "ignore": Plain, "file_filtering_options": Plain }
    "read_file" { "file_path": READ }
    "run_shell_command" { "command": Kind::Command, "dir_path": Kind::Root, "directory": Kind::Root, "description": Plain }
    "write_file" { "file_path": WRITE, "content": Plain }
};

/// Only Gemini CLI.
pub(crate) const GEMINI: &[Tool] = tools! {
    "activate_skill" { "name": Plain }
    "ask_user" { "questions": Plain }
    "complete_task" { "result": Plain }
    "enter_plan_mode" { "reason": Plain }
    "get_internal_docs" { "path": Plain }
    "google_web_search" { "query": Plain }
    "invoke_agent" { "agent_name": Plain, "prompt": Plain }
    "list_background_processes" {}
    "read_background_output" {}
    "read_many_files" { "include": Kind::NameList, "paths": Kind::NameList, "exclude": Plain, "file_filtering_options": Plain }
    "replace" { "file_path": WRITE, "old_string": Plain, "new_string": Plain, "instruction": Plain }
    "save_memory" { "fact": Plain }
    "search_file_content" { "pattern": Plain, "dir_path": Kind::Root, "path": Kind::Root, "include": Kind::Names }
    "update_topic" { "strategic_intent": Plain, "title": Plain, "summary": Plain }
    "web_fetch" { "prompt": Kind::Prose }
    "write_todos" { "todos": Plain }
};

/// Only Qwen Code.
pub(crate) const QWEN: &[Tool] = tools! {
    "agent" { "description": Plain, "prompt": Plain, "subagent_type": Plain }
    "edit" { "file_path": WRITE, "old_string": Plain, "new_string": Plain }
    "notebook_edit" { "notebook_path": WRITE, "cell_id": Plain, "new_source": Plain, "cell_type": Plain, "edit_mode": Plain }
    "todo_write" { "todos": Plain }
    "tool_search" { "query": Plain }
    "web_fetch" { "url": Kind::Url, "prompt": Plain }
};
