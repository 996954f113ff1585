//! `ringfence learn` and `--shrink` where there is a network.

use std::process::Stdio;

use serde_json::Value;

use crate::internet::{Internet, each, shown};

fn learn(internet: &Internet, options: &[&str], script: &str) -> Value {
    let words = [&["learn", "--json", "--policy", "own.toml"], options, &["--", "sh", "-ec", script]].concat();
    let output = internet.fence(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)))
}

fn lines(learned: &Value) -> Vec<String> {
    let changes = learned["changes"].as_array().unwrap().iter();
    changes.map(|change| format!("{} {}", change["key"], change["value"]).replace('"', "")).collect()
}

/// Hosts become lines with the ports that were used, none that nobody agreed to is reached, and none is too much.
#[test]
fn hosts_are_learned() {
    each(|internet| {
        internet.write("own.toml", "version = 1\n[network]\nallow = []\n");
        let script = "curl -sSf http://site.example.com/hello; curl -sSf http://site.example.com:8080/hello; \
                      curl -sSf http://meta.example.com/ || true";
        let before = internet.seen();
        let learned = learn(&internet, &[], script);
        assert_eq!(lines(&learned), ["network.allow site.example.com"], "{learned:#}");
        assert_eq!((&learned["proven"], &learned["changes"][0]["tried"]), (&false.into(), &false.into()));
        assert_eq!(internet.seen(), before, "nobody was asked, so nobody was reached");
        let learned = learn(&internet, &["--yes", "--write"], script);
        let expected = ["site.example.com:80", "site.example.com:8080"];
        assert_eq!(lines(&learned), expected.map(|host| format!("network.allow {host}")), "{learned:#}");
        assert_eq!((&learned["proven"], &learned["code"]), (&true.into(), &0.into()), "{learned:#}");
        // A name that leads where none may is said to, whatever is written.
        assert!(learned["refused"].to_string().contains("meta.example.com:80"), "{learned:#}");
        assert_eq!(lines(&learn(&internet, &["--yes"], script)), [""; 0]);
        let script = script.split("; curl -sSf http://meta").next().unwrap();
        let again = learn(&internet, &[], script);
        assert_eq!((lines(&again).len(), &again["runs"]), (0, &1.into()), "{again:#}");
        let text = std::fs::read_to_string(internet.path("project/own.toml")).unwrap();
        let needed: Vec<&str> = text.lines().filter(|line| line.contains("site.example.com")).collect();
        assert!(!needed.is_empty(), "{text}");
        for line in needed {
            internet.write("own.toml", &text.replace(&format!("{line}\n"), ""));
            let less = learn(&internet, &["--runs", "1"], script);
            assert!(!lines(&less).is_empty(), "without {line}: {less:#}");
        }
        internet.write("own.toml", &text);
        // Of these only one is used by what is done from now on.
        let run = ["run", "--policy", "own.toml", "--", "curl", "-sSf", "http://site.example.com:8080/hello"];
        let ran = internet.fence(&run).output().unwrap();
        assert!(ran.status.success(), "{}", shown(&ran));
        let shrink = ["learn", "--shrink", "--json", "--policy", "own.toml"];
        let output = internet.fence(&shrink).output().unwrap();
        let shrunk: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)));
        let unused: Vec<&str> =
            shrunk["unused"].as_array().unwrap().iter().map(|one| one["value"].as_str().unwrap()).collect();
        assert_eq!(unused, ["site.example.com:80"], "{shrunk:#}");
    });
}
