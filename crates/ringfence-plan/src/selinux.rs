//! The Surface as an SELinux module, in its intermediate language (CIL).
//!
//! SELinux decides by the label of a file, not by its path. So the module says which labels belong to which places and what may be
//! done with each; the labels are put there by `restorecon`. A file that is made later has the label of the directory that it is
//! made in: of names that appear later it says nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ringfence_surface::{AbsPath, Anchor, Effect, GlobToken, Pattern, Role, Rule, Segment, Surface};

use crate::claim::{Claim, LayerName};
use crate::host_profile::{Grade, Places, Profile};

/// What may be done with what can be read.
const READ_FILE: &str = "getattr open read ioctl lock map execute execute_no_trans";
const READ_DIRECTORY: &str = "getattr open read search ioctl lock";
/// What else may be done with what can be written.
const WRITE_FILE: &str =
    "getattr open read ioctl lock map execute execute_no_trans write append create unlink link rename setattr";
const WRITE_DIRECTORY: &str =
    "getattr open read search ioctl lock write add_name remove_name create rmdir rename reparent setattr";

/// The module for a Surface. `name` is what its block and its labels are called.
pub fn selinux(surface: &Surface, name: &str) -> Profile {
    let mut places = Places::of(surface, LayerName::SeLinux);
    // A place has one label: that which takes most away.
    let mut labels: BTreeMap<String, Grade> = BTreeMap::new();
    let rules = std::mem::take(&mut places.rules);
    let is_labelled = |grade: Grade, rule: &Rule| {
        matches!(grade, Grade::Read | Grade::Write) && rule.effect != Effect::Read(Role::System)
    };
    let roots: Vec<AbsPath> = rules
        .iter()
        .filter(|(grade, rule)| is_labelled(*grade, rule))
        .filter_map(|(_, rule)| rule.pattern.as_path().cloned())
        .collect();
    for (grade, rule) in rules {
        // The system's own files have labels already.
        if rule.effect == Effect::Read(Role::System) {
            continue;
        }
        match expressions(&rule.pattern, &roots) {
            Ok(texts) => texts.into_iter().for_each(|text| {
                let held = labels.entry(text).or_insert(grade);
                *held = [*held, grade].into_iter().max_by_key(|grade| rank(*grade)).unwrap_or(grade);
            }),
            Err(reason) => places.unsaid(grade, rule, reason),
        }
    }
    let later = "a label is put on what exists; what is made later has that of its directory";
    places.short(Claim::DeniedLater, later);
    places.short(Claim::ProtectedLater, later);
    places.short(Claim::NothingElseIsReadable, "of the system, everything with a label of the base policy can be read");
    let mut text = format!(
        ";; Made by `ringfence render selinux`. Load it with `semodule -i {name}.cil`, then `restorecon -R` the places below;\n\
         ;; use it with `runcon -t {name}.process -- CMD`.\n\
         (block {name}\n"
    );
    for kind in ["process", "read", "write", "denied", "protected"] {
        let _ = writeln!(
            text,
            "    (type {kind})\n    (roletype {} {kind})",
            if kind == "process" { "system_r" } else { "object_r" }
        );
    }
    text.push_str("    (typeattributeset domain (process))\n");
    text.push_str("    (typeattributeset file_type (read write denied protected))\n\n");
    text.push_str("    ;; Processes reach each other, and nobody else.\n");
    text.push_str("    (allow process process (process (fork sigchld sigkill sigstop signull signal getsched setsched getpgid setpgid getattr)))\n");
    text.push_str("    (allow process process (fifo_file (getattr read write append ioctl lock)))\n");
    text.push_str("    (allow process process (unix_stream_socket (create read write getattr setattr bind connect listen accept getopt setopt shutdown)))\n");
    text.push_str("    (allow process process (unix_dgram_socket (create read write getattr setattr bind connect getopt setopt shutdown)))\n\n");
    text.push_str("    ;; The system is read, and a few devices are used.\n");
    let _ = writeln!(text, "    (allow process base_ro_file_type (file ({READ_FILE})))");
    let _ = writeln!(text, "    (allow process base_ro_file_type (dir ({READ_DIRECTORY})))");
    text.push_str("    (allow process base_ro_file_type (lnk_file (getattr read)))\n");
    for device in ["null_device_t", "zero_device_t", "urandom_device_t", "random_device_t", "devtty_t"] {
        let _ = writeln!(text, "    (allow process {device} (chr_file (getattr open read write append ioctl lock)))");
    }
    text.push('\n');
    for (kind, file, directory) in [
        ("read", READ_FILE, READ_DIRECTORY),
        ("protected", READ_FILE, READ_DIRECTORY),
        ("write", WRITE_FILE, WRITE_DIRECTORY),
    ] {
        let _ = writeln!(text, "    (allow process {kind} (file ({file})))");
        let _ = writeln!(text, "    (allow process {kind} (dir ({directory})))");
    }
    text.push_str("    (allow process write (lnk_file (getattr read create unlink rename setattr)))\n");
    text.push_str("    (allow process write (fifo_file (getattr open read write append create unlink ioctl lock)))\n");
    text.push_str("    (allow process write (sock_file (getattr read write create unlink)))\n");
    text.push_str("    (allow process read (lnk_file (getattr read)))\n");
    text.push_str("    (allow process protected (lnk_file (getattr read)))\n");
    text.push_str("    ;; What is denied stays denied, whatever another module allows.\n");
    text.push_str("    (neverallow process denied (file (open read write append execute map)))\n");
    text.push_str("    (neverallow process protected (file (write append create unlink rename)))\n");
    if !surface.reach().hosts.is_empty() || !surface.reach().host_ports.is_empty() {
        text.push_str("\n    ;; Which hosts is said elsewhere.\n");
        text.push_str("    (allow process process (tcp_socket (create read write getattr setattr bind connect listen accept getopt setopt shutdown)))\n");
        text.push_str("    (allow process process (udp_socket (create read write getattr setattr bind connect getopt setopt shutdown)))\n");
        text.push_str("    (allow process port_type (tcp_socket (name_connect)))\n");
    }
    text.push('\n');
    for (place, grade) in &labels {
        let kind = match grade {
            Grade::Read => "read",
            Grade::Write => "write",
            Grade::Denied => "denied",
            Grade::Protected => "protected",
        };
        let _ = writeln!(text, "    (filecon \"{place}\" any (system_u object_r {kind} ((s0) (s0))))");
    }
    text.push_str(")\n");
    Profile { text, shortfalls: places.shortfalls, withheld: places.withheld }
}

/// Which of two labels a place has.
fn rank(grade: Grade) -> u8 {
    match grade {
        Grade::Read => 0,
        Grade::Write => 1,
        Grade::Protected => 2,
        Grade::Denied => 3,
    }
}

/// A pattern as regular expressions for whole paths. Of those that match a path the one counts whose beginning without wildcards
/// is longest: so what is meant anywhere is said of each root.
fn expressions(pattern: &Pattern, roots: &[AbsPath]) -> Result<Vec<String>, &'static str> {
    match &pattern.anchor {
        Anchor::At(path) => Ok(vec![expression(path, "/", &pattern.rest)?]),
        Anchor::Floating => roots.iter().map(|root| expression(root, "(/.*)?/", &pattern.rest)).collect(),
    }
}

/// What a pattern matches from a place on, and everything below.
fn expression(from: &AbsPath, mut before: &'static str, rest: &[Segment]) -> Result<String, &'static str> {
    let mut text = if from.is_root() { String::new() } else { literal(from.as_bytes())? };
    for segment in rest {
        let name = match segment {
            Segment::Any => {
                before = "(/.*)?/";
                continue;
            }
            Segment::Name(name) => literal(name)?,
            Segment::Glob(glob) => glob.tokens().iter().map(token).collect::<Result<String, _>>()?,
        };
        text.push_str(before);
        text.push_str(&name);
        before = "/";
    }
    text.push_str(if text.is_empty() { "/.*" } else { "(/.*)?" });
    Ok(text)
}

fn token(token: &GlobToken) -> Result<String, &'static str> {
    match token {
        GlobToken::Literal(bytes) => literal(bytes),
        GlobToken::Run => Ok("[^/]*".to_owned()),
        GlobToken::One => Ok("[^/]".to_owned()),
        GlobToken::Class { negated, ranges } => {
            let plain = |c: &char| c.is_ascii_alphanumeric();
            if !ranges.iter().all(|(from, to)| plain(from) && plain(to)) {
                return Err("SELinux has no such set of characters");
            }
            let ranges: String = ranges.iter().map(|(from, to)| format!("{from}-{to}")).collect();
            Ok(format!("[{}{ranges}]", if *negated { "^/" } else { "" }))
        }
    }
}

/// Bytes that mean themselves. A list of contexts is lines of words in ASCII: what is no part of a word cannot be said.
fn literal(bytes: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii());
    let text = text.ok_or("a list of SELinux contexts is ASCII, and this is not")?;
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '"') {
        return Err("a list of SELinux contexts has no blanks and no quotes in its paths");
    }
    let mut quoted = String::new();
    for c in text.chars() {
        if matches!(c, '\\' | '.' | '^' | '$' | '?' | '*' | '+' | '|' | '[' | ']' | '(' | ')' | '{' | '}') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(quoted)
}
