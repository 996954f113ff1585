//! F5: a connection inside stands only when the one outside does; otherwise `connect` fails as it does outside.

use crate::internet::{Internet, Who, each, ended, shown, with};

const CONNECTS: &str = include_str!("connects.py");

/// A server, and each way in which there is none.
const WHERE: &str = "site.example.com:80 site.example.com:7 site.example.com:81 gone.example.com:80 nowhere.example.com:443 \
                     silent.example.com:80";

#[test]
fn f5_a_connection_stands_only_when_the_one_outside_does() {
    each(|internet| {
        internet.write("connects.py", CONNECTS);
        let outside = connects(&internet, "outside");
        for (host, ended) in [
            ("site.example.com:80", "connected"),
            ("site.example.com:7", "connected"),
            ("site.example.com:81", "ECONNREFUSED"),
            ("gone.example.com:80", "EHOSTUNREACH"),
            ("nowhere.example.com:443", "ENETUNREACH"),
            ("silent.example.com:80", "waits"),
        ] {
            assert!(outside.contains(&format!("connects: {host} {ended}")), "{outside:#?}");
        }
        assert_eq!(connects(&internet, "inside"), outside);
    });
}

/// How connections ended, each host a line.
#[track_caller]
fn connects(internet: &Internet, side: &str) -> Vec<String> {
    let script = format!("timeout 100 python3 connects.py {WHERE}");
    let mut command = match side {
        "inside" => internet.fence(&["run", "--", "bash"]),
        _ => internet.outside("bash"),
    };
    command.args(["-euc", &script]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = ended(command.spawn().unwrap());
    assert!(output.status.success(), "{side}\n{}", shown(&output));
    shown(&output).lines().filter(|line| line.starts_with("connects: ")).map(str::to_owned).collect()
}

/// Programs that look whether something is there.
#[test]
fn f5_programs_see_that_nothing_is_there() {
    with(Who::Ordinary, |internet| {
        internet.write("connects.py", CONNECTS);
        let node = |host: &str, port: u16, code: &str| {
            format!(
                "node -e \"require('net').connect({port}, '{host}').on('connect', () => process.exit(9)).on('error', e => {{ \
                 console.log(e); process.exit((e.errors ?? [e]).every(e => e.code == '{code}') ? 0 : 8) }})\""
            )
        };
        let said = internet.works(&[
            ("curl, a port at which nothing listens", "curl -sS http://site.example.com:81/ || test $? = 7"),
            ("bash, a port at which nothing listens", "! (exec 3<>/dev/tcp/site.example.com/81)"),
            ("node, a port at which nothing listens", &node("site.example.com", 81, "ECONNREFUSED")),
            ("node, a host to which no route leads", &node("gone.example.com", 80, "EHOSTUNREACH")),
            ("a name that has no address outside", "curl -sS http://missing.example.invalid/ || test $? = 7"),
            ("curl, a silent host", "curl -sS -m 3 http://silent.example.com/ || test $? = 28"),
            ("calls that wait hold up no other", "timeout 30 python3 connects.py wait silent.example.com:80 /tmp/file"),
        ]);
        assert!(said.contains("stopped: tcp site.example.com:81") && said.contains("Connection refused"), "{said}");
    });
}
