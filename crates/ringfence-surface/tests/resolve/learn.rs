//! From what was asked for to lines of a policy: never more than that and a little around it, never what may not be given.

#![expect(clippy::unwrap_used, reason = "a test that cannot build its host has failed")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringfence_surface::learn::{
    self, Addition, Asked, Grant, Ground, Key, Proposal, Risk, Session, Thing, Want, propose, unused,
};
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{AbsPath, Access, Surface};

use crate::host::{Host, abs};

/// A host on which files stand in many places, with a policy and a ceiling.
#[derive(Debug)]
struct Lesson {
    managed: &'static str,
    policy: &'static str,
}

const FILES: &[&str] = &[
    "/opt/data/a.csv",
    "/opt/data/b.csv",
    "/opt/data/c.csv",
    "/opt/data/d.csv",
    "/opt/keys/server.pem",
    "/opt/keys/server.crt",
    "/opt/sdk/lib/x.so",
    "/opt/one",
    "/srv/lib/Cargo.toml",
    "/srv/lib/src/lib.rs",
    "/home/u/notes/todo.md",
    "/home/u/.ssh/id_ed25519",
    "/home/u/.aws/credentials",
    "/home/u/.aws/cli/cache.json",
    "/home/u/.cargo/registry/x",
    "/home/u/.rustup/toolchains/stable/bin/rustc",
    "/home/u/other/src/main.rs",
    "/home/u/other/.env",
    "/home/u/proj/secret/key",
    "/etc/shadow",
    "/var/run/docker.sock",
    "/sys/kernel/x",
];

/// Not everybody may read these.
const PRIVATE: &[&str] = &["/opt/keys/server.pem", "/opt/sdk/lib"];

impl Lesson {
    fn with(&self, text: &str) -> Option<Surface> {
        let mut host = FILES.iter().fold(Host::new(), |host, file| host.file(file));
        if !self.managed.is_empty() {
            host = host.managed(self.managed);
        }
        let text = text.strip_prefix("version = 1\n")?;
        host.project(text).try_resolve().ok().map(|resolved| resolved.surface)
    }

    fn text(&self) -> String {
        format!("version = 1\n{}", self.policy)
    }

    fn base(&self) -> Surface {
        self.with(&self.text()).unwrap()
    }

    fn edited(&self, additions: &[Addition]) -> String {
        learn::add(Some(&self.text()), additions, self.base().packs()).unwrap()
    }

    fn propose(&self, asked: &[Asked]) -> Proposal {
        let (dir, homes) = (abs("/home/u/proj"), [abs("/home/u")]);
        let is_private = |path: &AbsPath| PRIVATE.iter().any(|private| abs(private).is_within(path));
        let ground = Ground { dir: &dir, home: Some(&homes[0]), homes: &homes, is_private: &is_private };
        let base = self.base();
        let edited = |additions: &[Addition]| learn::add(Some(&self.text()), additions, base.packs()).unwrap();
        propose(&base, asked, &ground, &mut |additions| self.with(&edited(additions)))
    }

    #[track_caller]
    fn check(&self, asked: &[Asked], expected: &[&str]) {
        let proposal = self.propose(asked);
        let line = |one: &Addition| format!("{} {}: {}", one.key, one.value, one.risk);
        let refused = proposal.refused.iter().map(|refused| format!("not {:?}", asked[refused.asked].want));
        let found: Vec<String> = proposal.additions.iter().map(line).chain(refused).collect();
        assert_eq!(found, expected, "{:#?}", proposal.refused);
    }
}

const PLAIN: Lesson = Lesson { managed: "", policy: "" };

fn asked(want: Want) -> Asked {
    Asked { want, programs: BTreeMap::from([("cat".to_owned(), 1)]), times: 1 }
}

fn read(path: &str) -> Asked {
    let thing = if FILES.contains(&path) { Thing::File } else { Thing::Directory };
    asked(Want::Read { path: abs(path), thing })
}

fn write(path: &str, place: &str) -> Asked {
    let thing = if path == place { Thing::File } else { Thing::Directory };
    asked(Want::Write { path: abs(path), place: abs(place), thing })
}

fn host(name: &str, port: Option<u16>) -> Asked {
    asked(Want::Host { name: name.to_owned(), port })
}

/// A command that asks for more than anybody could look at is not proposed more than that, and does not take hours.
#[test]
fn there_are_never_more_lines_than_somebody_reads() {
    let file = |n: usize| asked(Want::Read { path: abs(&format!("/opt/d{n}/file")), thing: Thing::File });
    let all: Vec<Asked> = (0..1000).map(file).collect();
    let proposal = PLAIN.propose(&all);
    assert_eq!((proposal.additions.len(), proposal.refused.len()), (200, 800));
    assert!(proposal.refused.iter().all(|refused| refused.why.contains("first 200 lines")));
    // Many files of many directories are those directories, and many of these are no line more.
    let file = |n: usize| asked(Want::Read { path: abs(&format!("/opt/x/d{}/f{n}", n / 4)), thing: Thing::File });
    let all: Vec<Asked> = (0..10_000).map(file).collect();
    let values: Vec<String> = PLAIN.propose(&all).additions.into_iter().map(|addition| addition.value).collect();
    assert_eq!(values, ["/opt/x"]);
}

#[test]
fn files_and_directories() {
    PLAIN.check(&[read("/opt/data/a.csv")], &["files.read /opt/data/a.csv: low"]);
    PLAIN.check(
        &[read("/opt/data/a.csv"), read("/opt/data/b.csv")],
        &["files.read /opt/data/a.csv: low", "files.read /opt/data/b.csv: low"],
    );
    let many = ["/opt/data/a.csv", "/opt/data/b.csv", "/opt/data/c.csv"].map(read);
    PLAIN.check(&many, &["files.read /opt/data: low"]);
    PLAIN.check(&[read("/srv/lib/Cargo.toml"), read("/srv/lib/src/lib.rs")], &["files.read /srv/lib: low"]);
    PLAIN.check(&[read("/home/u/notes/todo.md")], &["files.read ~/notes/todo.md: medium"]);
    PLAIN.check(&[read("/home/u/notes")], &["files.read ~/notes: high"]);
    // What not everybody may read is somebody's own, wherever it is.
    PLAIN.check(
        &[read("/opt/keys/server.pem"), read("/opt/keys/server.crt")],
        &["files.read /opt/keys/server.crt: low", "files.read /opt/keys/server.pem: medium"],
    );
    PLAIN.check(&[read("/opt/keys")], &["files.read /opt/keys: medium"]);
    PLAIN.check(&[write("/opt/data/new", "/opt/data")], &["files.write /opt/data: medium"]);
    PLAIN.check(&[write("/opt/data/a.csv", "/opt/data/a.csv")], &["files.write /opt/data/a.csv: medium"]);
    // What is writable is readable: one line says both.
    PLAIN.check(&[write("/opt/data/x", "/opt/data"), read("/opt/data/a.csv")], &["files.write /opt/data: medium"]);
}

#[test]
fn what_stays_closed() {
    for path in
        ["/home/u/.ssh/id_ed25519", "/etc/shadow", "/home/u/.aws/credentials", "/opt", "/home/u", "/", "/sys/kernel/x"]
    {
        let proposal = PLAIN.propose(&[read(path)]);
        assert_eq!((proposal.additions.len(), proposal.refused.len()), (0, 1), "{path}: {:?}", proposal.additions);
    }
    for path in ["/home/u/proj/.git/hooks/x", "/usr/bin/x", "/home/u/x", "/home/u/proj/.envrc"] {
        let place = abs(path).parent().unwrap().to_string();
        let proposal = PLAIN.propose(&[write(path, &place)]);
        assert_eq!((proposal.additions.len(), proposal.refused.len()), (0, 1), "{path}: {:?}", proposal.additions);
    }
    let socket = [asked(Want::Socket { path: abs("/var/run/docker.sock") })];
    assert_eq!(PLAIN.propose(&socket).additions, []);
    // What somebody wrote down to be denied is theirs to open.
    let own = Lesson { managed: "", policy: "[files]\ndeny = [\"/opt/data\"]\n" };
    assert_eq!(own.propose(&[read("/opt/data/a.csv")]).additions, []);
    // Many files of a directory are not the directory where something in it was refused.
    let own = Lesson { managed: "", policy: "[files]\ndeny = [\"/opt/data/d.csv\"]\n" };
    let some = ["/opt/data/a.csv", "/opt/data/b.csv", "/opt/data/c.csv", "/opt/data/d.csv"].map(read);
    let values: Vec<String> = own.propose(&some).additions.into_iter().map(|one| one.value).collect();
    assert_eq!(values, ["/opt/data/a.csv", "/opt/data/b.csv", "/opt/data/c.csv"]);
}

#[test]
fn hosts_groups_and_packs() {
    PLAIN.check(&[host("api.example.com", Some(443))], &["network.allow api.example.com:443: medium"]);
    PLAIN.check(&[host("api.example.com", None)], &["network.allow api.example.com: medium"]);
    PLAIN.check(
        &[host("api.example.com", None), host("api.example.com", Some(8443))],
        &["network.allow api.example.com:8443: high"],
    );
    PLAIN.check(&[host("93.184.216.34", Some(80))], &["network.allow 93.184.216.34:80: high"]);
    PLAIN.check(&[host("2606:2800:220:1::34", Some(80))], &["network.allow [2606:2800:220:1::34]:80: high"]);
    PLAIN.check(&[host("pypi.org", None)], &["network.allow pypi: medium"]);
    // Two of what a toolchain brings, or one of its own places, are the toolchain.
    PLAIN.check(&[host("index.crates.io", None), host("static.crates.io", None)], &["extends rust: medium"]);
    let rustc = "/home/u/.rustup/toolchains/stable/bin/rustc";
    PLAIN.check(&[read(rustc), host("index.crates.io", Some(443))], &["extends rust: medium"]);
    // Where the file lists its hosts, those of packs do not count.
    let listed = Lesson { managed: "", policy: "[network]\nallow = [\"a.example\"]\n" };
    listed.check(
        &[read(rustc), host("index.crates.io", None)],
        &["extends rust: medium", "network.allow crates: medium"],
    );
}

/// What holds by default still holds once a list is written.
#[test]
fn nothing_is_lost() {
    let rust = Lesson { managed: "", policy: "extends = [\"rust\", \"git\"]\n" };
    let asked = [host("api.example.com", None), write("/opt/data/x", "/opt/data")];
    let (base, after) = (rust.base(), rust.with(&rust.edited(&rust.propose(&asked).additions)).unwrap());
    assert!(!base.reach().hosts.is_empty());
    for entry in &base.reach().hosts {
        assert!(after.reach().hosts.iter().any(|other| other.value.covers(&entry.value)), "{}", entry.value);
    }
    assert!(after.decide(&abs("/home/u/proj/x"), Access::Write).is_allowed());
}

#[test]
fn the_ceiling_is_kept() {
    let lesson = Lesson {
        managed: "[files]\nread = [\"/opt/sdk\", \"/home/u/proj\"]\n[network]\nallow = [\"a.example.com\"]\n",
        policy: "",
    };
    let asked = [
        read("/opt/data/a.csv"),
        read("/opt/sdk/lib/x.so"),
        write("/opt/data/x", "/opt/data"),
        host("a.example.com", Some(443)),
        host("b.example.com", Some(443)),
    ];
    let proposal = lesson.propose(&asked);
    let values: Vec<&str> = proposal.additions.iter().map(|one| one.value.as_str()).collect();
    assert_eq!(values, ["/opt/sdk/lib/x.so", "a.example.com:443"]);
    assert_eq!(proposal.refused.iter().map(|refused| refused.asked).collect::<Vec<_>>(), [0, 2, 4]);
}

/// A program chooses its own name, and what it asks for.
#[test]
fn nothing_that_is_asked_for_is_more_than_text() {
    let mut one = read("/opt/data/a.csv");
    one.programs = BTreeMap::from([("x\n]\n[files]\nwrite = [\"/\"]#\u{202e}".to_owned(), 1)]);
    let text = PLAIN.edited(&PLAIN.propose(&[one]).additions);
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(!text.contains('\u{202e}'));
    for path in ["/opt/data/a\nb", "/opt/data/\u{202e}b", "/opt/data/\u{1b}[2J"] {
        let odd = asked(Want::Read { path: abs(path), thing: Thing::File });
        assert_eq!(PLAIN.propose(&[odd]).additions, [], "{path:?}");
    }
    let odd = AbsPath::root().join("opt/data").child(b"\xff");
    assert_eq!(PLAIN.propose(&[asked(Want::Read { path: odd, thing: Thing::File })]).additions, []);
    // Wildcards in names are names.
    let star = asked(Want::Read { path: abs("/opt/data/*"), thing: Thing::File });
    let after = PLAIN.with(&PLAIN.edited(&PLAIN.propose(&[star]).additions)).unwrap();
    assert!(after.decide(&abs("/opt/data/*"), Access::Read).is_allowed());
    assert!(!after.decide(&abs("/opt/data/b.csv"), Access::Read).is_allowed());
}

fn any_asked() -> impl Strategy<Value = Asked> {
    let file = prop::sample::select(FILES);
    let names = prop::sample::select(vec!["a.example.com", "b.example.com", "pypi.org", "index.crates.io", "1.2.3.4"]);
    let ports = prop::sample::select(vec![None, Some(80), Some(443), Some(8443)]);
    prop_oneof![
        file.clone().prop_map(read),
        file.clone().prop_map(|file| read(&abs(file).parent().unwrap().to_string())),
        file.clone().prop_map(|file| write(file, file)),
        file.clone().prop_map(|file| write(&format!("{file}.new"), &abs(file).parent().unwrap().to_string())),
        file.prop_map(|file| asked(Want::Socket { path: abs(file) })),
        (names, ports).prop_map(|(name, port)| host(name, port)),
    ]
}

fn any_lesson() -> impl Strategy<Value = Lesson> {
    let managed = prop::sample::select(vec![
        "",
        "[files]\nread = [\"/opt\", \"/home/u/proj\"]\n",
        "[files]\nwrite = [\"/home/u/proj\"]\n",
        "[network]\nallow = [\"a.example.com\", \"crates\"]\n",
        "[files]\ndeny = [\"/opt/data/b.csv\"]\n",
    ]);
    let policy = prop::sample::select(vec![
        "",
        "extends = []\n",
        "[files]\nread = [\"/opt/one\"]\ndeny = [\"secret\"]\n",
        "[network]\nallow = [\"github\"]\n",
        "[files]\nwrite = [\".\"]\nprotect = [\"/opt/data\"]\n",
    ]);
    (managed, policy).prop_map(|(managed, policy)| Lesson { managed, policy })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is proposed is about what was asked for, opens nothing that a rule closes or the ceiling leaves out, has no line too
    /// many, and is the same each time.
    #[test]
    fn a_proposal_is_no_more_than_asked_for(lesson in any_lesson(), asked in prop::collection::vec(any_asked(), 0..6)) {
        let proposal = lesson.propose(&asked);
        prop_assert_eq!(&proposal, &lesson.propose(&asked));
        let (base, after) = (lesson.base(), lesson.with(&lesson.edited(&proposal.additions)).unwrap());
        let is_about = |path: &AbsPath| asked.iter().any(|one| match &one.want {
            Want::Read { path: wanted, .. } | Want::Socket { path: wanted } => wanted.is_within(path),
            Want::Write { place, .. } => place.is_within(path),
            Want::Host { .. } => false,
        });
        for rule in after.allowed_reads().filter(|rule| rule.source.is_written()) {
            if let Some(path) = rule.pattern.as_path().filter(|path| !base.decide(path, Access::Read).is_allowed()) {
                prop_assert!(is_about(path), "{path} was not asked for");
                prop_assert!(path.components().count() >= 2 && !abs("/home/u/proj").is_within(path));
            }
        }
        for file in FILES {
            for access in [Access::Read, Access::Write] {
                let (before, now) = (base.decide(&abs(file), access), after.decide(&abs(file), access));
                let is_closed = matches!(before.because, ringfence_surface::Because::Rule(_)) && !before.is_allowed();
                prop_assert!(!is_closed || !now.is_allowed(), "{file} was opened");
                // Nothing that was allowed is lost.
                prop_assert!(!before.is_allowed() || now.is_allowed(), "{file} was lost");
            }
        }
        // Each line counts: without it something that was asked for is missing.
        let is_open = |surface: &Surface, want: &Want| match want {
            Want::Read { path, .. } => surface.decide(path, Access::Read).is_allowed(),
            Want::Write { path, .. } => surface.decide(path, Access::Write).is_allowed(),
            Want::Socket { path } => surface.decide_socket(path).is_some(),
            Want::Host { name, port } => {
                let target = ringfence_surface::HostTarget::new(name, port.unwrap_or(443)).unwrap();
                surface.reach().hosts.iter().any(|entry| {
                    if port.is_some() { entry.value.matches(&target) } else { entry.value.matches_host(&target) }
                })
            }
        };
        for at in 0..proposal.additions.len() {
            let without: Vec<Addition> =
                proposal.additions.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, one)| one.clone()).collect();
            let less = lesson.with(&lesson.edited(&without)).unwrap();
            prop_assert!(asked.iter().any(|one| is_open(&after, &one.want) && !is_open(&less, &one.want)));
        }
        // And everything that was asked for is open now, or said to be refused.
        for (at, one) in asked.iter().enumerate() {
            let is_refused = proposal.refused.iter().any(|refused| refused.asked == at);
            prop_assert!(is_open(&after, &one.want) != is_refused, "{:?}", one.want);
        }
        for one in &proposal.additions {
            prop_assert!(one.key != Key::Allow && one.key != Key::Sockets || one.risk > Risk::Low, "{:?}", one);
        }
    }
}

fn session(reached: &[&str], written: Option<&[&str]>) -> Session {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Session { reached: owned(reached), is_cut: false, written: written.map(owned) }
}

const GRANTS: &str = "version = 1\nextends = [\"git\"]\n[files]\nwrite = [\".\", \"/opt/data\", \"/opt/sdk\"]\nread = \
                      [\"/opt/one\"]\n[network]\nallow = [\"github\", \"a.example.com\", \"b.example.com:8443\"]\n\
                      host_ports = [5432]\n";

fn sorted(sessions: &[Session]) -> (Vec<String>, Vec<String>) {
    let host = FILES.iter().fold(Host::new(), |host, file| host.file(file));
    let surface = host.project(GRANTS.strip_prefix("version = 1\n").unwrap()).resolve().0.surface;
    let text = PolicyText::new(b"/home/u/proj/ringfence.toml", GRANTS.as_bytes().to_vec()).unwrap();
    let file = PolicyFile::parse(&text).unwrap();
    let (unused, kept) = unused(&file, &surface, sessions);
    let name = |grant: &Grant| format!("{} {}", grant.key, grant.value);
    let kept = kept.iter().map(|kept| format!("{}: {:?}", name(&kept.grant), kept.used)).collect();
    (unused.iter().map(|unused| name(&unused.grant)).collect(), kept)
}

#[test]
fn what_nothing_made_use_of() {
    let one = session(&["github.com:443", "b.example.com:8443"], Some(&["/opt/sdk"]));
    let other = session(&["github.com:443", "localhost:5432"], Some(&[]));
    let (unused, kept) = sorted(&[one.clone(), other]);
    assert_eq!(unused, ["files.write /opt/data", "network.allow a.example.com"]);
    assert_eq!(
        kept,
        [
            "extends git: None",
            "files.write .: None",
            "files.write /opt/sdk: Some(1)",
            "files.read /opt/one: None",
            "network.allow github: Some(2)",
            "network.allow b.example.com:8443: Some(1)",
            "network.host_ports 5432: Some(1)",
        ]
    );
    // Nothing is said of what nobody saw.
    assert_eq!(sorted(&[]).0, [""; 0]);
    assert_eq!(sorted(&[session(&[], None)]).0.iter().filter(|grant| grant.starts_with("files")).count(), 0);
    let cut = Session { is_cut: true, ..one };
    assert_eq!(sorted(&[cut]).0, ["files.write /opt/data"]);
}
