//! Landlock takes nothing away below what it gave. So where something is denied inside a directory, the directory is not given
//! whole: each of its entries is, but that one.
//!
//! What was left out stays out when somebody replaces it, and so does whatever appears beside it later. The price is that
//! nothing can be created in the directories above something denied.

use std::collections::BTreeMap;

use ringfence_surface::AbsPath;

use crate::landlock::{LandlockRule, Rights, Withheld};

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Whether it is a symbolic link: those have no rights of their own.
    pub is_link: bool,
}

/// The rules without what is denied. Each rule names something that is allowed itself. `list` says what a directory holds.
pub fn complement(
    rules: &[LandlockRule],
    denied: &[AbsPath],
    mut list: impl FnMut(&AbsPath) -> Vec<Entry>,
) -> (Vec<LandlockRule>, Vec<Withheld>) {
    let mut given: BTreeMap<AbsPath, Rights> = BTreeMap::new();
    let mut withheld = Vec::new();
    // With the path of the rule that each comes from.
    let mut ahead: Vec<(LandlockRule, AbsPath)> = rules.iter().map(|rule| (rule.clone(), rule.path.clone())).collect();
    while let Some((LandlockRule { path, rights }, named)) = ahead.pop() {
        // What a rule names inside something denied is there by an exception.
        let is_denied = |denied: &AbsPath| path.is_within(denied) && (named == *denied || !named.is_within(denied));
        if denied.iter().any(is_denied) {
            continue;
        }
        if !denied.iter().any(|denied| denied.is_within(&path)) {
            let held = given.entry(path).or_insert(rights);
            *held = (*held).max(rights);
            continue;
        }
        let entries = list(&path).into_iter().filter(|entry| !entry.is_link);
        ahead.extend(entries.map(|entry| (LandlockRule { path: path.child(&entry.name), rights }, named.clone())));
        if rights == Rights::All {
            let reason = "something in it is denied, so nothing new can be made in it";
            withheld.push(Withheld { pattern: path.to_string(), source: "landlock".to_owned(), reason });
        }
        // Names can be seen without namespaces anyway, and a directory that cannot be listed helps nobody.
        given.entry(path).or_insert(Rights::List);
    }
    (given.into_iter().map(|(path, rights)| LandlockRule { path, rights }).collect(), withheld)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    fn rule(path: &str, rights: Rights) -> LandlockRule {
        LandlockRule { path: abs(path), rights }
    }

    fn tree(dir: &AbsPath) -> Vec<Entry> {
        let names: &[&str] = match dir.to_string().as_str() {
            "/w" => &["src", ".env", "README", "link"],
            "/w/src" => &["a.rs", "keys"],
            _ => &[],
        };
        names.iter().map(|name| Entry { name: name.as_bytes().to_vec(), is_link: *name == "link" }).collect()
    }

    #[test]
    fn what_holds_nothing_denied_is_given_whole() {
        let rules = [rule("/usr", Rights::Read), rule("/w", Rights::All)];
        assert_eq!(complement(&rules, &[abs("/home/u/.ssh")], tree), (rules.to_vec(), Vec::new()));
    }

    #[test]
    fn what_is_denied_is_left_out() {
        let rules = [rule("/usr", Rights::Read), rule("/w", Rights::All)];
        let (given, withheld) = complement(&rules, &[abs("/w/.env"), abs("/w/src/keys")], tree);
        assert_eq!(
            given,
            [
                rule("/usr", Rights::Read),
                rule("/w", Rights::List),
                rule("/w/README", Rights::All),
                rule("/w/src", Rights::List),
                rule("/w/src/a.rs", Rights::All),
            ]
        );
        let places: Vec<&str> = withheld.iter().map(|one| one.pattern.as_str()).collect();
        assert_eq!(places, ["/w", "/w/src"]);
    }

    #[test]
    fn a_rule_that_is_denied_itself_gives_nothing() {
        assert_eq!(complement(&[rule("/w", Rights::All)], &[abs("/w")], tree), (Vec::new(), Vec::new()));
    }

    /// What an exception leaves inside something denied is named by a rule of its own, and has its own denies.
    #[test]
    fn what_an_exception_leaves_is_given() {
        let rules = [rule("/", Rights::Read), rule("/w/src", Rights::All)];
        let (given, _) = complement(&rules, &[abs("/w"), abs("/w/src/keys")], tree);
        let expected = [rule("/", Rights::List), rule("/w/src", Rights::List), rule("/w/src/a.rs", Rights::All)];
        assert_eq!(given, expected);
    }
}
