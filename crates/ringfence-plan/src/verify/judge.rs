//! What came of a deed, laid beside what must come of it and what the receipt says.

use ringfence_surface::AbsPath;

use super::Came;
use super::expect::Expected;
use crate::claim::Claim;
use crate::receipt::{Kept, Receipt};

/// How a deed fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// As it must.
    Holds,
    /// Not as it must, and nobody said so.
    DoesNot,
    /// Nobody claims it here, and that is said: why.
    NotCarried(String),
    /// Nothing is said of it.
    Open,
}

/// What a layer said of itself before anything was tried.
#[derive(Debug, Clone)]
pub struct Said {
    /// The claims that it does not hold, with the reason.
    pub short: Vec<(Claim, String)>,
    /// Patterns and directories in which it gives less than was asked, with the reason.
    pub less: Vec<(String, String)>,
    /// Directories that are hidden as a whole, with the reason.
    pub hidden: Vec<(AbsPath, String)>,
    /// Why nothing can be written, if nothing can.
    pub unwritable: Option<String>,
}

impl Said {
    /// What a receipt says.
    pub fn of(receipt: &Receipt) -> Self {
        let short = receipt.lines.iter().filter_map(|line| match &line.kept {
            Kept::Not(short) => Some((line.claim.clone(), short.reason.clone())),
            Kept::By(_) => None,
        });
        let less = receipt.withheld.iter().map(|one| (one.pattern.clone(), one.reason.to_owned()));
        Self { short: short.collect(), less: less.collect(), hidden: Vec::new(), unwritable: None }
    }

    fn why_not(&self, claim: &Claim) -> Option<&str> {
        self.short.iter().find(|(short, _)| short == claim).map(|(_, reason)| reason.as_str())
    }

    /// Why something that is allowed may be refused here.
    fn why_less(&self, by: &[String], at: &[AbsPath]) -> Option<String> {
        let is_meant = |what: &String| {
            by.contains(what)
                || at.iter().any(|path| path.to_string() == *what)
                || at.iter().filter_map(AbsPath::parent).any(|dir| dir.to_string() == *what)
        };
        let less = self.less.iter().find(|(what, _)| is_meant(what)).map(|(_, reason)| reason.clone());
        let hidden = || {
            let holds = |(dir, _): &&(AbsPath, String)| at.iter().any(|path| path.is_within(dir));
            self.hidden.iter().find(holds).map(|(_, reason)| reason.clone())
        };
        less.or_else(hidden).or_else(|| self.unwritable.clone())
    }
}

/// How a deed fared.
pub fn judge(expected: &Expected, came: Came, said: &Said) -> Judged {
    match (expected, came) {
        (_, Came::NotTried) | (Expected::Open, Came::Done | Came::Refused(_)) => Judged::Open,
        (_, Came::Strange | Came::Stuck) => Judged::DoesNot,
        (Expected::Allowed { .. }, Came::Done) => Judged::Holds,
        (Expected::Allowed { by, at }, Came::Refused(_)) => match said.why_less(by, at) {
            Some(reason) => Judged::NotCarried(reason),
            None => Judged::DoesNot,
        },
        (Expected::Refused { claims, unless }, came) => {
            let excuse = unless.iter().find_map(|claim| said.why_not(claim));
            if let (Some(reason), Came::Done) = (excuse, came) {
                return Judged::NotCarried(reason.to_owned());
            }
            // It is enough that one of them is held.
            let reasons: Option<Vec<&str>> = claims.iter().map(|claim| said.why_not(claim)).collect();
            match (reasons, came) {
                (Some(reasons), _) => {
                    let claim = match claims.first() {
                        // One note for all of them.
                        Some(Claim::Denied { .. }) => "deny".to_owned(),
                        Some(Claim::Protected { .. }) => "protect".to_owned(),
                        claim => claim.map(ToString::to_string).unwrap_or_default(),
                    };
                    Judged::NotCarried(format!("{claim}: {}", reasons.first().copied().unwrap_or_default()))
                }
                (None, Came::Refused(_)) => Judged::Holds,
                (None, _) => Judged::DoesNot,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_excuses_and_nothing_else_does() {
        let said = Said {
            short: vec![(Claim::DeniedLater, "why".to_owned())],
            less: vec![("/p/*.rs".to_owned(), "a pattern".to_owned())],
            hidden: Vec::new(),
            unwritable: None,
        };
        let refused = |claims: &[Claim]| Expected::Refused { claims: claims.to_vec(), unless: Vec::new() };
        let denied = Claim::Denied { pattern: "x".to_owned() };
        assert_eq!(judge(&refused(std::slice::from_ref(&denied)), Came::Done, &said), Judged::DoesNot);
        assert_eq!(judge(&refused(std::slice::from_ref(&denied)), Came::Refused(13), &said), Judged::Holds);
        assert!(matches!(judge(&refused(&[Claim::DeniedLater]), Came::Done, &said), Judged::NotCarried(_)));
        // One that is held must refuse, whatever the other says of itself.
        assert_eq!(judge(&refused(&[Claim::DeniedLater, denied]), Came::Done, &said), Judged::DoesNot);
        let allowed = |by: &str| Expected::Allowed { by: vec![by.to_owned()], at: Vec::new() };
        assert_eq!(judge(&allowed("/p"), Came::Refused(13), &said), Judged::DoesNot);
        assert_eq!(judge(&allowed("/p"), Came::Done, &said), Judged::Holds);
        assert!(matches!(judge(&allowed("/p/*.rs"), Came::Refused(13), &said), Judged::NotCarried(_)));
        assert_eq!(judge(&allowed("/p"), Came::Strange, &said), Judged::DoesNot);
        assert_eq!(judge(&Expected::Open, Came::Stuck, &said), Judged::DoesNot);
    }
}
