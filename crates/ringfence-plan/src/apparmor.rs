//! The Surface as an AppArmor profile.
//!
//! AppArmor decides by path when something is opened, and what is denied is denied whatever else allows it: so it says what is
//! denied and protected also of names that appear later. It knows families of sockets and no hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Anchor, GlobToken, Pattern, Segment, Surface};

use crate::claim::LayerName;
use crate::host_profile::{DEVICES, Grade, Places, Profile};

/// At any depth, also at none.
const ANYWHERE: &str = "/{,**/}";
/// The place itself, as a file and as a directory, whose name ends with a slash; and everything below.
const BELOW: &str = "{,/,/**}";

/// The profile for a Surface. `name` is what it is called on the host.
pub fn apparmor(surface: &Surface, name: &str) -> Profile {
    let mut places = Places::of(surface, LayerName::AppArmor);
    let mut lines: BTreeSet<(Grade, String)> = BTreeSet::new();
    // Names that are meant anywhere are by far the most, and the compiler is fastest with all of them at once.
    let mut anywhere: BTreeMap<Grade, BTreeSet<String>> = BTreeMap::new();
    let rules = std::mem::take(&mut places.rules);
    let writes: Vec<&AbsPath> = rules
        .iter()
        .filter(|(grade, _)| *grade == Grade::Write)
        .filter_map(|(_, rule)| rule.pattern.as_path())
        .collect();
    let mut pinned: BTreeSet<String> = BTreeSet::new();
    for (grade, rule) in rules {
        if matches!(grade, Grade::Denied | Grade::Protected) {
            pinned.extend(above(&rule.pattern, &writes).iter().filter_map(|dir| literal(dir.as_bytes()).ok()));
            if names(&rule.pattern) > 1 {
                places.unsaid(grade, rule, "a directory above it can be given another name meanwhile");
            }
        }
        let said = match (&rule.pattern.anchor, rule.pattern.rest.as_slice()) {
            (Anchor::Floating, [Segment::Name(name)] | [Segment::Any, Segment::Name(name)]) => {
                literal(name).map(|name| {
                    anywhere.entry(grade).or_default().insert(name);
                })
            }
            _ => expression(&rule.pattern).map(|text| {
                lines.insert((grade, text));
            }),
        };
        if let Err(reason) = said {
            places.unsaid(grade, rule, reason);
        }
    }
    for (grade, names) in anywhere {
        let names: Vec<String> = names.into_iter().collect();
        let one_of = if let [name] = names.as_slice() { name.clone() } else { format!("{{{}}}", names.join(",")) };
        lines.insert((grade, format!("{ANYWHERE}{one_of}{BELOW}")));
    }
    let mut text = format!(
        "# Made by `ringfence render apparmor`. Load it with `apparmor_parser --replace`, use it with `aa-exec -p {name} -- CMD`.\n\
         profile {name} flags=(attach_disconnected) {{\n"
    );
    text.push_str("  # Processes reach each other, and nobody else.\n");
    for rule in [
        "signal (send, receive) peer=@{profile_name},",
        "signal (receive) peer=unconfined,",
        "ptrace (read, readby, trace, tracedby) peer=@{profile_name},",
        "unix peer=(label=@{profile_name}),",
        "unix (create, bind, listen, getattr, setattr, getopt, setopt, shutdown),",
    ] {
        let _ = writeln!(text, "  {rule}");
    }
    if !surface.reach().hosts.is_empty() || !surface.reach().host_ports.is_empty() {
        text.push_str("\n  # Which hosts is said elsewhere.\n");
        for family in ["inet", "inet6"] {
            let _ = writeln!(text, "  network {family} stream,\n  network {family} dgram,");
        }
    }
    text.push_str("\n  # What every program opens.\n");
    for device in DEVICES {
        let _ = writeln!(text, "  {device} rw,");
    }
    text.push_str("  /proc/{cpuinfo,filesystems,loadavg,meminfo,stat,uptime,version} r,\n");
    text.push_str("  owner /proc/[0-9]*/{cmdline,comm,fd/,maps,mounts,stat,statm,status} r,\n");
    if surface.view() == View::Host {
        text.push_str("\n  # The view is the host.\n  /{,**} mrix,\n");
    }
    for (grade, title, rights) in [
        (Grade::Read, "Readable.", "mrix"),
        (Grade::Write, "Writable.", "mrwklix"),
        (Grade::Denied, "Denied.", "mrwklx"),
        (Grade::Protected, "Protected.", "wl"),
    ] {
        let of_grade = lines.iter().filter(|(of, _)| *of == grade);
        let before = if matches!(grade, Grade::Denied | Grade::Protected) { "deny " } else { "" };
        for (at, (_, place)) in of_grade.enumerate() {
            if at == 0 {
                let _ = writeln!(text, "\n  # {title}");
            }
            let _ = writeln!(text, "  {before}\"{place}\" {rights},");
        }
    }
    if !pinned.is_empty() {
        text.push_str("\n  # A path is only a name: what is above something closed keeps its own.\n");
    }
    for dir in pinned {
        let _ = writeln!(text, "  deny \"{dir}/\" wl,");
    }
    text.push_str("}\n");
    Profile { text, shortfalls: places.shortfalls, withheld: places.withheld }
}

/// A profile that takes nothing away from ringfence and lets it make user namespaces, for hosts on which only programs with a
/// profile may. Nothing for a path that would mean more than itself.
pub fn namespaces_profile(program: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    let is_path = program.starts_with('/') && program.chars().all(is_plain);
    is_path.then(|| {
        format!(
            "# It lets this one program make user namespaces, and takes nothing away from it.\n\
             abi <abi/4.0>,\ninclude <tunables/global>\n\n\
             profile ringfence {program} flags=(unconfined) {{\n  userns,\n\n  include if exists <local/ringfence>\n}}\n"
        )
    })
}

/// The directories between what can be written and what is closed: whoever renames one has it under another path.
fn above(pattern: &Pattern, writes: &[&AbsPath]) -> Vec<AbsPath> {
    let Anchor::At(path) = &pattern.anchor else { return Vec::new() };
    let skipped = usize::from(pattern.rest.is_empty());
    let is_between = |dir: &AbsPath| writes.iter().any(|root| dir != *root && dir.is_within(root));
    path.ancestors().skip(skipped).filter(is_between).collect()
}

/// How many names in a row are searched for.
fn names(pattern: &Pattern) -> usize {
    pattern.rest.iter().filter(|segment| **segment != Segment::Any).count()
}

/// A pattern in AppArmor's own words, to stand in quotes: what it matches, and everything below.
fn expression(pattern: &Pattern) -> Result<String, &'static str> {
    let mut text = match &pattern.anchor {
        Anchor::At(path) if path.is_root() => String::new(),
        Anchor::At(path) => literal(path.as_bytes())?,
        Anchor::Floating => String::new(),
    };
    let floats = matches!(pattern.anchor, Anchor::Floating);
    let mut before = if floats { ANYWHERE } else { "/" };
    for segment in &pattern.rest {
        let name = match segment {
            Segment::Any => {
                before = ANYWHERE;
                continue;
            }
            Segment::Name(name) => literal(name)?,
            Segment::Glob(glob) => glob.tokens().iter().map(token).collect::<Result<String, _>>()?,
        };
        text.push_str(before);
        text.push_str(&name);
        before = "/";
    }
    text.push_str(if text.is_empty() { "/{,**}" } else { BELOW });
    Ok(text)
}

fn token(token: &GlobToken) -> Result<String, &'static str> {
    match token {
        GlobToken::Literal(bytes) => literal(bytes),
        GlobToken::Run => Ok("*".to_owned()),
        GlobToken::One => Ok("?".to_owned()),
        GlobToken::Class { negated, ranges } => {
            let plain = |c: &char| c.is_ascii_alphanumeric();
            if !ranges.iter().all(|(from, to)| plain(from) && plain(to)) {
                return Err("AppArmor has no such set of characters");
            }
            let ranges: String = ranges.iter().map(|(from, to)| format!("{from}-{to}")).collect();
            Ok(format!("[{}{ranges}]", if *negated { "^" } else { "" }))
        }
    }
}

/// Bytes that mean themselves.
fn literal(bytes: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "AppArmor's own text is UTF-8, and this is not")?;
    if text.chars().any(char::is_control) {
        return Err("AppArmor's own text has no such character");
    }
    let mut quoted = String::new();
    for c in text.chars() {
        if matches!(c, '\\' | '"' | '*' | '?' | '[' | ']' | '{' | '}' | '^' | ',') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(quoted)
}
