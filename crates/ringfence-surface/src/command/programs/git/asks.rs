//! What git may be asked, as a table. Options that write (`--output`), start programs (`--open-files-in-pager`, `--ext-diff`), ask
//! gpg (`--show-signature`) or make temporary objects (`--remerge-diff`) are absent.

use super::super::super::arguments::{Grammar, Stray};

const fn ask(name: &'static str, short: &'static str, long: &'static str) -> (&'static str, Grammar) {
    (name, Grammar { short, long, stray: Stray::Refused })
}

const DIFF: &str = "\
    abbrev=? anchored= base binary break-rewrites=? cached check color-moved-ws= color-moved=? color-words=? \
    color=? combined-all-paths compact-summary cumulative default-prefix diff-algorithm= diff-filter= dirstat=? \
    dst-prefix= end-of-options exit-code find-copies-harder find-copies=? find-object= find-renames=? full-index \
    function-context histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-matching-lines= \
    ignore-space-at-eol ignore-space-change ignore-submodules=? indent-heuristic inter-hunk-context= \
    irreversible-delete ita-invisible-in-index line-prefix= merge-base minimal name-only name-status no-abbrev \
    no-color no-color-moved no-ext-diff no-indent-heuristic no-index no-patch no-prefix no-relative \
    no-rename-empty no-renames no-textconv numstat ours patch patch-with-raw patch-with-stat patience \
    pickaxe-all pickaxe-regex quiet raw relative=? rename-empty rotate-to= shortstat skip-to= src-prefix= staged \
    stat-count= stat-graph-width= stat-name-width= stat-width= stat=? summary text theirs unified= \
    word-diff-regex= word-diff=? ws-error-highlight=";

const LOG: &str = "\
    abbrev-commit abbrev=? after= all all-match ancestry-path=? anchored= author-date-order author= base \
    basic-regexp before= binary bisect boundary branches=? break-rewrites=? cached cc check cherry cherry-mark \
    cherry-pick children clear-decorations color-moved-ws= color-moved=? color-words=? color=? \
    combined-all-paths committer= compact-summary count cumulative date-order date= dd decorate-refs-exclude= \
    decorate-refs= decorate=? default-prefix dense diff-algorithm= diff-filter= diff-merges= dirstat=? \
    disk-usage=? do-walk dst-prefix= email encoding= end-of-options exclude-first-parent-only exclude= exit-code \
    expand-tabs=? extended-regexp find-copies-harder find-copies=? find-object= find-renames=? first-parent \
    fixed-strings follow format= full-diff full-history full-index function-context glob= graph grep-reflog= \
    grep= header histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-matching-lines= \
    ignore-missing ignore-space-at-eol ignore-space-change ignore-submodules=? indent-heuristic \
    inter-hunk-context= invert-grep irreversible-delete ita-invisible-in-index left-only left-right line-prefix= \
    log-size mailmap max-count= max-parents= merge merge-base merges min-parents= minimal name-only name-status \
    no-abbrev no-abbrev-commit no-color no-color-moved no-decorate no-diff-merges no-expand-tabs no-ext-diff \
    no-graph no-indent-heuristic no-index no-mailmap no-max-parents no-merges no-min-parents no-notes no-patch \
    no-prefix no-relative no-rename-empty no-renames no-textconv no-walk=? not notes=? numbered numstat objects \
    oneline ours parents patch patch-with-raw patch-with-stat patience perl-regexp pickaxe-all pickaxe-regex \
    pretty=? quiet raw reflog regexp-ignore-case relative-date relative=? remotes=? remove-empty rename-empty \
    reverse right-only rotate-to= shortstat show-linear-break=? show-notes=? show-pulls simplify-by-decoration \
    simplify-merges since-as-filter= since= single-worktree skip-to= skip= source sparse src-prefix= staged \
    stat-count= stat-graph-width= stat-name-width= stat-width= stat=? stdin summary tags=? text theirs timestamp \
    topo-order unified= until= use-mailmap walk-reflogs word-diff-regex= word-diff=? ws-error-highlight=";

const TREE: &str = "\
    abbrev-commit abbrev=? after= all all-match always ancestry-path=? anchored= author-date-order author= base \
    basic-regexp before= binary bisect boundary branches=? break-rewrites=? cached cc check cherry cherry-mark \
    cherry-pick children clear-decorations color-moved-ws= color-moved=? color-words=? color=? \
    combined-all-paths committer= compact-summary count cumulative date-order date= dd decorate-refs-exclude= \
    decorate-refs= decorate=? default-prefix dense diff-algorithm= diff-filter= diff-merges= dirstat=? \
    disk-usage=? do-walk dst-prefix= email encoding= end-of-options exclude-first-parent-only exclude= exit-code \
    expand-tabs=? extended-regexp find-copies-harder find-copies=? find-object= find-renames=? first-parent \
    fixed-strings follow format= full-diff full-history full-index function-context glob= graph grep-reflog= \
    grep= header histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-matching-lines= \
    ignore-missing ignore-space-at-eol ignore-space-change ignore-submodules=? indent-heuristic \
    inter-hunk-context= invert-grep irreversible-delete ita-invisible-in-index left-only left-right line-prefix= \
    log-size mailmap max-count= max-parents= merge merge-base merges min-parents= minimal name-only name-status \
    no-abbrev no-abbrev-commit no-color no-color-moved no-commit-id no-decorate no-diff-merges no-expand-tabs \
    no-ext-diff no-graph no-indent-heuristic no-index no-mailmap no-max-parents no-merges no-min-parents \
    no-notes no-patch no-prefix no-relative no-rename-empty no-renames no-textconv no-walk=? not notes=? \
    numbered numstat objects oneline ours parents patch patch-with-raw patch-with-stat patience perl-regexp \
    pickaxe-all pickaxe-regex pretty=? quiet raw reflog regexp-ignore-case relative-date relative=? remotes=? \
    remove-empty rename-empty reverse right-only root rotate-to= shortstat show-linear-break=? show-notes=? \
    show-pulls simplify-by-decoration simplify-merges since-as-filter= since= single-worktree skip-to= skip= \
    source sparse src-prefix= staged stat-count= stat-graph-width= stat-name-width= stat-width= stat=? stdin \
    summary tags=? text theirs timestamp topo-order unified= until= use-mailmap walk-reflogs word-diff-regex= \
    word-diff=? ws-error-highlight=";

const DIFF_SHORT: &str = "puszabwWRrtmcqU:S:G:I:M::C::B::D::l:";

const LOG_SHORT: &str = "puszabwWRrtmcqU:S:G:I:M::C::B::D::l:n:#iEFPgL:";

/// Sorted by name.
pub(super) const ASKS: &[(&str, Grammar)] = &[
    ask(
        "annotate",
        "bcltfswepM::C::S:hL:",
        "\
        abbrev= color-by-age color-lines date= encoding= end-of-options first-parent ignore-rev= \
        ignore-revs-file= incremental line-porcelain minimal no-progress porcelain progress reverse root \
        score-debug show-email show-name show-number show-stats",
    ),
    ask(
        "blame",
        "bcltfswepM::C::S:hL:",
        "\
        abbrev= color-by-age color-lines date= encoding= end-of-options first-parent ignore-rev= \
        ignore-revs-file= incremental line-porcelain minimal no-progress porcelain progress reverse root \
        score-debug show-email show-name show-number show-stats",
    ),
    ask(
        "branch",
        "arvl",
        "\
        abbrev=? all color=? column=? contains=? format= ignore-case list merged=? no-abbrev no-color no-column \
        no-contains=? no-merged=? omit-empty points-at= remotes show-current sort= verbose",
    ),
    ask(
        "cat-file",
        "tpes",
        "\
        batch-all-objects batch-check=? batch=? buffer end-of-options follow-symlinks unordered use-mailmap",
    ),
    ask("check-attr", "az", "all cached stdin"),
    ask("check-ignore", "qvzn", "no-index non-matching quiet stdin verbose"),
    ask("cherry", "v", "abbrev=? verbose"),
    ask(
        "config",
        "lz",
        "\
        bool default= get get-all get-regexp get-urlmatch global includes int list local name-only no-includes \
        null path show-origin show-scope system type= worktree",
    ),
    ask("count-objects", "vH", "human-readable verbose"),
    ask(
        "describe",
        "",
        "\
        abbrev= all always candidates= contains debug end-of-options exact-match exclude= first-parent long \
        match= tags",
    ),
    ask("diff", DIFF_SHORT, DIFF),
    ask("diff-files", DIFF_SHORT, DIFF),
    ask("diff-index", DIFF_SHORT, DIFF),
    ask("diff-tree", DIFF_SHORT, TREE),
    ask(
        "for-each-ref",
        "",
        "\
        contains=? count= exclude= format= ignore-case include-root-refs merged=? no-contains=? no-merged=? \
        omit-empty perl points-at= python shell sort= tcl",
    ),
    ask(
        "grep",
        "vwiEFGPnlLchHzqoWpIraA:B:C:#e:f:m:",
        "\
        after-context= all-match and basic-regexp before-context= break cached color=? column context= count \
        end-of-options exclude-standard extended-regexp files-with-matches files-without-match fixed-strings \
        full-name function-context heading ignore-case invert-match line-number max-count= max-depth= name-only \
        no-color no-exclude-standard no-index no-recursive no-textconv not null only-matching or perl-regexp \
        quiet recursive show-function text threads= untracked word-regexp",
    ),
    ask("log", LOG_SHORT, LOG),
    ask(
        "ls-files",
        "cdmosiuktvfzx:X:",
        "\
        abbrev=? cached debug deduplicate deleted directory eol error-unmatch exclude-from= \
        exclude-per-directory= exclude-standard exclude= format= full-name ignored killed modified \
        no-empty-directory others recurse-submodules resolve-undo sparse stage unmerged with-tree=",
    ),
    ask(
        "ls-tree",
        "drtlz",
        "\
        abbrev=? end-of-options format= full-name full-tree long name-only name-status object-only",
    ),
    ask("merge-base", "a", "all fork-point independent is-ancestor octopus"),
    ask("name-rev", "", "all always exclude= name-only no-undefined refs= tags"),
    ask("reflog", LOG_SHORT, LOG),
    ask("remote", "v", "all push verbose"),
    ask("rev-list", LOG_SHORT, LOG),
    ask(
        "rev-parse",
        "q",
        "\
        abbrev-ref=? absolute-git-dir all branches=? default= end-of-options exclude= flags git-common-dir \
        git-dir git-path= glob= is-bare-repository is-inside-git-dir is-inside-work-tree is-shallow-repository \
        local-env-vars no-flags no-revs not path-format= quiet remotes=? revs-only short=? show-cdup \
        show-object-format=? show-prefix show-superproject-working-tree show-toplevel since= sq symbolic \
        symbolic-full-name tags=? until= verify",
    ),
    ask("shortlog", "puszabwWRrtmcqU:S:G:I:M::C::B::D::l:n:#iEFPgL:ew::", LOG),
    ask("show", LOG_SHORT, LOG),
    ask(
        "show-ref",
        "dsq",
        "\
        abbrev=? branches dereference exists hash=? head heads quiet tags verify",
    ),
    ask("stash", LOG_SHORT, LOG),
    ask(
        "status",
        "sbu::zv",
        "\
        ahead-behind branch column=? find-renames=? ignore-submodules=? ignored=? long no-ahead-behind no-column \
        no-renames null porcelain=? renames short show-stash untracked-files=? verbose",
    ),
    ask("symbolic-ref", "q", "no-recurse quiet recurse short"),
    ask(
        "tag",
        "ln::i",
        "\
        color=? column=? contains=? format= ignore-case list merged=? no-column no-contains=? no-merged=? \
        omit-empty points-at= sort=",
    ),
    ask("var", "l", ""),
    ask("version", "", "build-options"),
    ask("whatchanged", LOG_SHORT, LOG),
    ask("worktree", "vz", "porcelain verbose"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(ASKS.is_sorted_by_key(|(name, _)| *name));
        for (name, grammar) in ASKS {
            let long: Vec<&str> = grammar.long.split_ascii_whitespace().collect();
            assert!(long.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}
