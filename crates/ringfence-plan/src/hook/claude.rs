//! The tools of Claude Code.

use super::tools::Kind::{self, Plain};
use super::tools::{READ, Tool, WRITE, tools};

pub(crate) const TOOLS: &[Tool] = tools! {
    "Agent" { "description": Plain, "prompt": Plain, "subagent_type": Plain, "model": Plain, "name": Plain,
        "resume": Plain, "isolation": Plain, "team_name": Plain, "mode": Plain }
    "AskUserQuestion" { "questions": Plain, "answers": Plain }
    "Bash" { "command": Kind::Command, "description": Plain }
    "BashOutput" { "bash_id": Plain, "filter": Plain }
    "CronCreate" { "cron": Plain, "prompt": Plain }
    "CronDelete" { "id": Plain }
    "CronList" {}
    "Edit" { "file_path": WRITE, "old_string": Plain, "new_string": Plain }
    "EnterPlanMode" {}
    "EnterWorktree" { "name": Kind::Worktree }
    "ExitPlanMode" { "plan": Plain, "allowedPrompts": Plain }
    "ExitWorktree" { "action": Plain }
    "Glob" { "pattern": Kind::Names, "path": Kind::Root }
    "Grep" { "pattern": Plain, "path": Kind::Root, "glob": Kind::Names, "type": Plain, "output_mode": Plain }
    "KillBash" { "shell_id": Plain }
    "KillShell" { "shell_id": Plain }
    "LS" { "path": READ, "ignore": Plain }
    "LSP" { "filePath": READ, "operation": Plain }
    "ListMcpResourcesTool" { "server": Plain }
    "Monitor" { "command": Kind::Command, "description": Plain }
    "MultiEdit" { "file_path": WRITE, "edits": Plain }
    "NotebookEdit" { "notebook_path": WRITE, "cell_id": Plain, "new_source": Plain, "cell_type": Plain, "edit_mode": Plain }
    "NotebookRead" { "notebook_path": READ, "cell_id": Plain }
    "Read" { "file_path": READ, "pages": Plain }
    "ReadMcpResourceTool" { "server": Plain, "uri": Kind::Uri }
    "SendMessage" { "to": Plain, "type": Plain, "recipient": Plain, "content": Plain, "summary": Plain, "message": Plain }
    "Skill"(Unseen) { "skill": Plain, "args": Plain, "command": Plain }
    "SlashCommand"(Unseen) { "command": Plain }
    "Task" { "description": Plain, "prompt": Plain, "subagent_type": Plain, "model": Plain, "resume": Plain }
    "TaskCreate" { "subject": Plain, "description": Plain, "activeForm": Plain, "metadata": Plain }
    "TaskGet" { "taskId": Plain }
    "TaskList" {}
    "TaskOutput" { "task_id": Plain }
    "TaskStop" { "task_id": Plain, "shell_id": Plain }
    "TaskUpdate" { "taskId": Plain, "status": Plain, "subject": Plain, "description": Plain, "activeForm": Plain,
        "owner": Plain, "addBlocks": Plain, "addBlockedBy": Plain, "metadata": Plain }
    "TodoWrite" { "todos": Plain }
    "ToolSearch" { "query": Plain }
    "WebFetch" { "url": Kind::Url, "prompt": Plain }
    "WebSearch" { "query": Plain, "allowed_domains": Plain, "blocked_domains": Plain }
    "Write" { "file_path": WRITE, "content": Plain }
};
