//! The stream of a session's violations: which of them are told, and what is kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::{Counted, Deed, Layer, Summary, Violation};

/// So many different ones by one rule are kept; the oldest makes room.
const MOST_KINDS: usize = 64;
/// So many rules have room of their own. The others share one.
const MOST_GROUPS: usize = 64;
/// So many different ones by one rule are told at once, and one more for each second.
const AT_ONCE: u64 = 50;
/// Of so many it is said at the end how often they came.
const MOST_LAST: usize = 100;
/// Longer texts are cut. A path has 4096 bytes at most.
const LONGEST: usize = 8 << 10;

/// What was denied so far.
#[derive(Debug)]
pub(crate) struct Stream {
    since: Instant,
    groups: BTreeMap<Group, Bucket>,
    denied: u64,
    kinds: u64,
}

/// What was denied, and by which rule. Neither is chosen inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Of(Layer, Deed, Option<String>),
    Others,
}

#[derive(Debug)]
struct Bucket {
    kept: VecDeque<Kept>,
    told: u64,
    /// How often something was denied that is not kept any more.
    gone: u64,
    /// How many new kinds were not told, since there were too many at once.
    untold: u64,
}

#[derive(Debug)]
struct Kept {
    violation: Violation,
    times: u64,
    /// It is told again when it has come so often.
    next: u64,
    /// How often, when it was last told.
    told: u64,
    number: u64,
    /// Whether the user's terminal has shown it already.
    is_shown: bool,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), groups: BTreeMap::new(), denied: 0, kinds: 0 }
    }

    /// How often something was denied.
    pub(crate) fn denied(&self) -> u64 {
        self.denied
    }

    /// How many kinds of things there were.
    pub(crate) fn kinds(&self) -> u64 {
        self.kinds
    }

    /// Takes note of something that was denied, and returns what is to be told of it: a kind that is new, or that came ten times,
    /// a hundred times and so on.
    pub(crate) fn note(&mut self, mut violation: Violation, times: u64) -> Vec<Counted> {
        self.denied += times;
        cut(&mut violation);
        let most = AT_ONCE + self.since.elapsed().as_secs();
        let group = Group::Of(violation.layer, violation.access, violation.rule.clone());
        let has_room = self.groups.len() < MOST_GROUPS || self.groups.contains_key(&group);
        let bucket = self.groups.entry(if has_room { group } else { Group::Others }).or_insert_with(Bucket::new);
        if let Some(known) = bucket.kept.iter_mut().rev().find(|known| is_same(&known.violation, &violation)) {
            known.times += times;
            if known.times < known.next {
                return Vec::new();
            }
            (known.next, known.told) = (next_after(known.times), known.times);
            return vec![Counted { violation: known.violation.clone(), times: known.times }];
        }
        if bucket.kept.len() == MOST_KINDS
            && let Some(oldest) = bucket.kept.pop_front()
        {
            bucket.gone += oldest.times;
        }
        self.kinds += 1;
        let is_told = bucket.told < most;
        let told = if is_told { times } else { 0 };
        let (next, number) = (next_after(times), self.kinds);
        bucket.kept.push_back(Kept { violation: violation.clone(), times, next, told, number, is_shown: false });
        if !is_told {
            bucket.untold += 1;
            return Vec::new();
        }
        bucket.told += 1;
        let more = more_of(&violation, std::mem::take(&mut bucket.untold));
        more.into_iter().chain([Counted { violation, times }]).collect()
    }

    /// The user's terminal shows it now.
    pub(crate) fn is_shown(&mut self, violation: &Violation) {
        let mut kept = self.groups.values_mut().flat_map(|bucket| &mut bucket.kept);
        if let Some(kept) = kept.find(|kept| is_same(&kept.violation, violation)) {
            kept.is_shown = true;
        }
    }

    /// Something was denied of which no more is known.
    pub(crate) fn note_unknown(&mut self, times: u64) {
        self.denied += times;
        if times > 0 {
            self.groups.entry(Group::Others).or_insert_with(Bucket::new).gone += times;
        }
    }

    /// What was not told yet, at the end: how many kinds came too fast, and how often some of the others came since.
    pub(crate) fn untold(&mut self) -> Vec<Counted> {
        let mut untold: Vec<Counted> = Vec::new();
        for bucket in self.groups.values_mut() {
            let last = bucket.kept.back().map(|last| last.violation.clone());
            untold.extend(last.and_then(|last| more_of(&last, std::mem::take(&mut bucket.untold))));
        }
        let more = self.groups.values_mut().flat_map(|bucket| &mut bucket.kept);
        for kept in more.filter(|kept| kept.told > 0 && kept.told < kept.times).take(MOST_LAST) {
            kept.told = kept.times;
            untold.push(Counted { violation: kept.violation.clone(), times: kept.times });
        }
        untold
    }

    /// Everything that is kept.
    pub(crate) fn summary(&self) -> Summary {
        let mut kept: Vec<&Kept> = self.groups.values().flat_map(|bucket| &bucket.kept).collect();
        kept.sort_by_key(|kept| kept.number);
        let kinds = kept.iter().map(|kept| Counted { violation: kept.violation.clone(), times: kept.times }).collect();
        let shown = kept.iter().map(|kept| kept.is_shown).collect();
        let more = self.groups.values().map(|bucket| bucket.gone).sum();
        Summary { denied: self.denied, kinds, shown, more, ended_by: None, untold: Vec::new(), learned: None }
    }
}

impl Bucket {
    fn new() -> Self {
        Self { kept: VecDeque::new(), told: 0, gone: 0, untold: 0 }
    }
}

/// Whose process it was does not make another kind of it.
fn is_same(one: &Violation, other: &Violation) -> bool {
    (&one.tried, &one.why, one.access) == (&other.tried, &other.why, other.access)
}

/// 10, 100, 1000 and so on.
fn next_after(times: u64) -> u64 {
    let mut next = 10;
    while next <= times {
        next *= 10;
    }
    next
}

/// That others like this one came faster than they are told.
fn more_of(like: &Violation, count: u64) -> Option<Counted> {
    let mut more = Violation::new(like.layer, like.access, format!("{count} more like these"), FASTER.to_owned());
    (more.rule, more.source, more.is_rest) = (like.rule.clone(), like.source.clone(), true);
    (count > 0).then_some(Counted { violation: more, times: count })
}

const FASTER: &str = "more refusals than could be recorded";

fn cut(violation: &mut Violation) {
    let Violation { tried, why, .. } = violation;
    for text in [tried, why] {
        if text.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(rule: &str, path: &str) -> Violation {
        let mut violation =
            Violation::new(Layer::Broker, Deed::Write, format!("write {path}"), "a rule denies it".into());
        violation.rule = Some(rule.into());
        violation
    }

    /// K14: the same again is counted, and told again only when it comes ten times, a hundred times and so on.
    #[test]
    fn k14_the_same_is_told_once() {
        let mut stream = Stream::new();
        let told: Vec<u64> = (0..1_000).flat_map(|_| stream.note(denied("a", "/x"), 1)).map(|one| one.times).collect();
        assert_eq!(told, [1, 10, 100, 1_000]);
        let summary = stream.summary();
        assert_eq!((summary.denied, summary.kinds.len(), summary.kinds[0].times, summary.more), (1_000, 1, 1_000, 0));
        // The end says how often it was in all.
        assert!(stream.untold().is_empty());
        // What a terminal has shown meanwhile is known.
        assert_eq!(summary.shown, [false]);
        stream.is_shown(&denied("a", "/y"));
        assert_eq!(stream.summary().shown, [false]);
        stream.is_shown(&denied("a", "/x"));
        assert_eq!(stream.summary().shown, [true]);
        assert!(stream.note(denied("a", "/x"), 5).is_empty());
        let last: Vec<u64> = stream.untold().iter().map(|one| one.times).collect();
        assert_eq!((last, stream.untold().len()), (vec![1_005], 0));
    }

    /// K14: a flood fills nothing, and hides nothing that another rule denies.
    #[test]
    fn k14_a_flood_hides_nothing_else() {
        let mut stream = Stream::new();
        let flood = 100_000;
        let mut told: Vec<Counted> = Vec::new();
        (0..flood).for_each(|n| told.extend(stream.note(denied("a", &format!("/x{n}")), 1)));
        assert!(told.len() < 200, "{} were told", told.len());
        let other = stream.note(denied("b", "/secret"), 1);
        assert_eq!((other.len(), other[0].violation.tried.as_str()), (1, "write /secret"));
        let summary = stream.summary();
        assert!(summary.kinds.len() <= MOST_KINDS + 1);
        let kept: u64 = summary.kinds.iter().map(|one| one.times).sum();
        assert_eq!((kept + summary.more, summary.denied), (flood + 1, flood + 1));
        // How many were not told is told.
        let all: u64 = told.iter().chain(&stream.untold()).map(|one| one.times).sum();
        assert_eq!(all, flood);
        assert!(stream.untold().is_empty());
    }

    /// K14: nor do many rules: they share what is left.
    #[test]
    fn k14_memory_is_bounded_whatever_the_rules() {
        let mut stream = Stream::new();
        for rule in 0..10_000 {
            stream.note(denied(&rule.to_string(), &format!("/{}", "x".repeat(100_000))), 1);
        }
        assert!(stream.groups.len() <= MOST_GROUPS + 1);
        assert!(stream.groups.values().all(|bucket| bucket.kept.len() <= MOST_KINDS));
        assert!(stream.summary().kinds.iter().all(|one| one.violation.tried.len() < LONGEST + 10));
        assert_eq!(stream.summary().denied, 10_000);
    }
}
