//! `ringfence explain`: one question, the answer, the rule, where it was written, and what can be done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use ringfence_surface::{AbsPath, Access, HostTarget, Look as _, PathFact, Rule, Surface, follow};

use crate::cli::ExplainArgs;
use crate::error::Failure;
use crate::host::Recorder;
use crate::load;
use crate::out;
use crate::wire::WireSource;
use crate::wire::verdict::{Answer, is_private, rule_of, source_of, word};

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let here = load::here(&args.policy)?;
    load::tell(&here);
    let surface = &here.resolved.surface;
    let question = &args.question;
    let (answer, source) = match (&question.read, &question.write, &question.host) {
        (Some(path), _, _) => about_path(surface, &here.facts.cwd, path, Access::Read)?,
        (_, Some(path), _) => about_path(surface, &here.facts.cwd, path, Access::Write)?,
        (_, _, Some(host)) => about_host(surface, host)?,
        // The command line makes sure that there is one question.
        (None, None, None) => return Ok(ExitCode::from(2)),
    };
    let allowed = answer.verdict == word(true);
    if args.json {
        out::print_json(&answer)?
    } else {
        out::print(&in_words(&answer, source.as_deref()))?
    }
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Answers about a path as the kernel would see it: links on the way are followed as far as the path exists.
fn about_path(
    surface: &Surface,
    cwd: &AbsPath,
    path: &OsStr,
    access: Access,
) -> Result<(Answer, Option<String>), Failure> {
    let mut live = Recorder::new();
    if path.is_empty() {
        return Err(Failure::BadPath { reason: "it is empty".into() });
    }
    let found = follow(cwd, path.as_bytes(), &mut live).map_err(|why| Failure::BadPath { reason: why.to_string() })?;
    let path = found.path;
    let verdict = surface.decide(&path, access);
    let access_word = if access == Access::Read { "read" } else { "write" };
    let rule = rule_of(&verdict);
    if let Some(rule) = rule.filter(|rule| verdict.is_allowed() && hides_the_host(rule, &path, &mut live)) {
        let words = format!("{} is private inside the fence; the host's is not there", rule.pattern);
        let mut answer = Answer::new(access_word, path.as_bytes(), word(false), words);
        answer.source = Some(WireSource::new(&rule.source));
        answer.remedy = Some(format!("add \"{path}\" to `{access_word}` in [files]"));
        return Ok((answer, Some(rule.source.to_string())));
    }
    let mut answer = Answer::new(access_word, path.as_bytes(), word(verdict.is_allowed()), verdict.because.to_string());
    answer.source = rule.map(|rule| WireSource::new(&rule.source));
    answer.asks = verdict.ask.map(|rule| format!("accept-edits asks first: {}", rule.source));
    answer.remedy = surface.remedy(&path, access, &verdict);
    Ok((answer, rule.map(|rule| rule.source.to_string())))
}

/// `/tmp` inside is another one. Does the path name something of the host's that is therefore not there?
fn hides_the_host(rule: &Rule, path: &AbsPath, live: &mut Recorder) -> bool {
    let Some(private) = rule.pattern.as_path().filter(|_| is_private(rule)) else { return false };
    // Devices are the same inside; what counts is a file below a private directory.
    let below = path.ancestors().take_while(|above| above != private).last();
    below.is_some_and(|first| live.path(&first) != PathFact::Missing) && private.as_bytes() != b"/proc"
}

fn about_host(surface: &Surface, host: &str) -> Result<(Answer, Option<String>), Failure> {
    let target = HostTarget::parse(host).map_err(|source| Failure::Host { source })?;
    let shown = target.to_string();
    match surface.decide_host(&target) {
        Some(entry) => {
            let mut answer = Answer::new("reach", shown.as_bytes(), word(true), format!("allow \"{}\"", entry.value));
            answer.source = Some(source_of(entry));
            Ok((answer, Some(entry.source.to_string())))
        }
        None => {
            let rule = "no entry of `allow` in [network] covers it".to_owned();
            let mut answer = Answer::new("reach", shown.as_bytes(), word(false), rule);
            answer.remedy = Some(format!("add \"{shown}\" to `allow` in [network]"));
            Ok((answer, None))
        }
    }
}

fn in_words(answer: &Answer, source: Option<&str>) -> String {
    let target = match &answer.target {
        crate::wire::Bytes::Text(text) => ringfence_surface::Shown(text.as_bytes()).to_string(),
        hex @ crate::wire::Bytes::Hex { .. } => {
            ringfence_surface::Shown(&hex.clone().into_bytes().unwrap_or_default()).to_string()
        }
    };
    let mut lines =
        vec![format!("{}: {} {target}", answer.verdict, answer.access), format!("  rule:   {}", answer.rule)];
    lines.extend(source.map(|source| format!("  from:   {source}")));
    lines.extend(answer.asks.as_ref().map(|asks| format!("  asks:   {asks}")));
    lines.extend(answer.remedy.as_ref().map(|remedy| format!("  remedy: {remedy}")));
    lines.push("  layers: none: this build enforces nothing yet".to_owned());
    lines.join("\n") + "\n"
}
