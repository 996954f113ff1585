//! What each provider's interface looks like: where a request tells the results of earlier calls, and how the next is said.

use serde_json::{Value, json};

use crate::model::{Call, LAST_WORDS};

/// The interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic's messages.
    Messages,
    /// Google's contents.
    Contents,
    /// OpenAI's responses.
    Responses,
}

/// An answer, whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Answers a request, by its first line and body. Whatever is no question to the model (telemetry, updates, lists) is not found.
pub(crate) fn answer(line: &str, body: &Value, script: &[Call]) -> Answer {
    if line.contains("count_tokens") || line.contains(":countTokens") {
        return said(JSON, json!({"input_tokens": 1, "totalTokens": 1}).to_string());
    }
    let Some(dialect) = Dialect::of(line) else {
        return Answer { status: "404 Not Found", kind: JSON, body: "{}".to_owned() };
    };
    // A request without tools is a question beside the work, such as a title for the conversation.
    let asks_for_work = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let next = if asks_for_work { script.get(dialect.results(body).len()) } else { None };
    let at = dialect.results(body).len();
    match dialect {
        Dialect::Messages => messages(body, next, at),
        Dialect::Contents => contents(line, next),
        Dialect::Responses => responses(next.map(|call| in_session(call, &dialect.results(body))).as_ref(), at),
    }
}

impl Dialect {
    /// Which interface a request is for.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let path = line.split(' ').nth(1)?.split('?').next()?;
        match path {
            _ if !line.starts_with("POST ") => None,
            _ if path.ends_with("/messages") => Some(Self::Messages),
            _ if path.ends_with("enerateContent") => Some(Self::Contents),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ => None,
        }
    }

    /// The results that a request carries, by the number of their call.
    pub(crate) fn results(self, body: &Value) -> Vec<(usize, String)> {
        let (list, results): (&str, fn(&Value) -> Vec<String>) = match self {
            Self::Messages => ("messages", |message| {
                parts(message, "content")
                    .filter(|part| part["type"] == "tool_result")
                    .map(|part| text(&part["content"]))
                    .collect()
            }),
            Self::Contents => ("contents", |content| {
                parts(content, "parts")
                    .filter(|part| part["functionResponse"].is_object())
                    .map(|part| text(&part["functionResponse"]["response"]))
                    .collect()
            }),
            Self::Responses => ("input", |item| {
                let is_result = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
                if is_result { vec![text(&item["output"])] } else { Vec::new() }
            }),
        };
        parts(body, list).flat_map(results).enumerate().collect()
    }
}

fn parts<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

/// A result is a text, or a list of parts with a text each, or something else, which is shown as it is.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) if parts.iter().all(|part| part["text"].is_string()) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect()
        }
        other => other.to_string(),
    }
}

fn said(kind: &'static str, body: String) -> Answer {
    Answer { status: "200 OK", kind, body }
}

fn events(events: &[Value]) -> Answer {
    let one = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"));
    said(EVENTS, events.iter().map(one).collect())
}

fn messages(body: &Value, next: Option<&Call>, at: usize) -> Answer {
    let (block, reason) = match next {
        Some(call) => (
            json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": call.tool, "input": call.input}),
            "tool_use",
        ),
        None => (json!({"type": "text", "text": LAST_WORDS}), "end_turn"),
    };
    let whole = |content: Value, reason: Value| {
        json!({"id": format!("msg_{at}"), "type": "message", "role": "assistant", "model": body["model"], "content": content,
               "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
    };
    if body["stream"] != true {
        return said(JSON, whole(json!([block]), json!(reason)).to_string());
    }
    let (start, delta) = match next {
        Some(call) => (
            json!({"type": "tool_use", "id": block["id"], "name": call.tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": call.input.to_string()}),
        ),
        None => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": LAST_WORDS})),
    };
    events(&[
        json!({"type": "message_start", "message": whole(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ])
}

fn contents(line: &str, next: Option<&Call>) -> Answer {
    let part = match next {
        Some(call) => json!({"functionCall": {"name": call.tool, "args": call.input}}),
        None => json!({"text": LAST_WORDS}),
    };
    let answer = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    });
    if line.contains(":streamGenerateContent") {
        said(EVENTS, format!("data: {answer}\n\n"))
    } else {
        said(JSON, answer.to_string())
    }
}

/// Whoever types into a program says into which: an earlier result tells its number.
fn in_session(call: &Call, results: &[(usize, String)]) -> Call {
    let mut call = call.clone();
    let number = |text: &String| {
        let rest = &text[text.find(SESSION)? + SESSION.len()..];
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    if let Some(session) = call.input.get_mut("session_id") {
        *session = json!(results.iter().rev().find_map(|(_, text)| number(text)));
    }
    call
}

const SESSION: &str = "session ID ";

fn responses(next: Option<&Call>, at: usize) -> Answer {
    let call_id = format!("call_{at}");
    let item = match next {
        Some(Call { tool, input: Value::String(text) }) => {
            json!({"type": "custom_tool_call", "call_id": call_id, "name": tool, "input": text})
        }
        Some(Call { tool, input }) => {
            json!({"type": "function_call", "call_id": call_id, "name": tool, "arguments": input.to_string()})
        }
        None => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": LAST_WORDS}]})
        }
    };
    let id = format!("resp_{at}");
    let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1, "output_tokens_details": null,
                       "total_tokens": 2});
    events(&[
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
    ])
}
