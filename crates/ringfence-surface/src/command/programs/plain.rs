//! Programs of which the options and the number of operands say everything.
//!
//! What is harmless was looked up in the manuals of GNU, util-linux, procps, BSD and busybox. Options that write (`sort -o`), start
//! programs (`rg --pre`, `sort --compress-program`) or set something (`hostname NAME`) are absent. So is what asks a name server:
//! a name that is looked up leaves the machine, and can carry anything (`getent hosts DATA.attacker.example`, `hostname -f`).

use super::super::arguments::{Grammar, Stray};
use super::{Operands, Row};

const fn row(name: &'static str, stray: Stray, operands: Operands, short: &'static str, long: &'static str) -> Row {
    Row { name, grammar: Grammar { short, long, stray }, operands }
}

use Operands::{Any, None, OneLast};
use Stray::{Harmless, Refused};

/// Sorted by name.
pub(super) const PLAIN: &[Row] = &[
    row("arch", Harmless, None, "", "help version"),
    row(
        "b2sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row("base32", Refused, Any, "dDiw:", "decode help ignore-garbage version wrap="),
    row("base64", Refused, Any, "dDw:", "decode help ignore-garbage version wrap="),
    row("basename", Harmless, Any, "as:z", "help multiple suffix= version zero"),
    row("bzcat", Refused, Any, "", ""),
    row("cal", Harmless, Any, "13smjywn:A:B:hN", ""),
    row(
        "cat",
        Harmless,
        Any,
        "AbeEnstTuv",
        "\
        help number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank version",
    ),
    row(
        "cksum",
        Harmless,
        Any,
        "a:bctwz",
        "\
        algorithm= base64 check debug help ignore-missing length= quiet raw status strict tag untagged version \
        warn zero",
    ),
    row("cmp", Harmless, Any, "bi:ln:s", "bytes= help ignore-initial= print-bytes quiet silent verbose version"),
    row(
        "column",
        Harmless,
        Any,
        "tndo:s:xc:N:R:H:W:T:O:E:Jr:i:p:eL",
        "\
        fillrows help json keep-empty-lines output-separator= output-width= separator= table table-columns= \
        table-empty-lines table-hide= table-name= table-noextreme= table-order= table-right= table-truncate= \
        table-wrap= version",
    ),
    row(
        "comm",
        Harmless,
        Any,
        "123iz",
        "\
        check-order help nocheck-order output-delimiter= total version zero-terminated",
    ),
    row(
        "cut",
        Harmless,
        Any,
        "b:c:d:f:nsz",
        "\
        bytes= characters= complement delimiter= fields= help only-delimited output-delimiter= version \
        zero-terminated",
    ),
    row(
        "df",
        Refused,
        Any,
        "aB:hHiklPt:Tx:",
        "\
        all block-size= exclude-type= help human-readable inodes local no-sync output=? portability print-type \
        si total type= version",
    ),
    row(
        "diff",
        Harmless,
        Any,
        "abBcC:dD:eEF:hiI:L:lnNpqrsStTuU:vwW:xX:yZ#",
        "\
        brief changed-group-format= color=? context=? ed exclude-from= exclude= expand-tabs from-file= help \
        horizon-lines= ignore-all-space ignore-blank-lines ignore-case ignore-file-name-case \
        ignore-matching-lines= ignore-space-change ignore-tab-expansion ignore-trailing-space initial-tab label= \
        left-column line-format= minimal new-file new-group-format= new-line-format= no-dereference \
        no-ignore-file-name-case normal old-group-format= old-line-format= palette= rcs recursive \
        report-identical-files show-c-function show-function-line= side-by-side speed-large-files starting-file= \
        strip-trailing-cr suppress-blank-empty suppress-common-lines tabsize= text to-file= \
        unchanged-group-format= unchanged-line-format= unidirectional-new-file unified=? version width=",
    ),
    row(
        "diff3",
        Refused,
        Any,
        "3AaEeimLTxX",
        "\
        all easy-only ed help initial-tab label= merge overlap-only show-overlap strip-trailing-cr text version",
    ),
    row("dirname", Harmless, Any, "z", "help version zero"),
    row(
        "du",
        Harmless,
        Any,
        "0aB:bcDd:hHklLmPsSt:xX:",
        "\
        all apparent-size block-size= bytes count-links dereference dereference-args exclude-from= exclude= \
        files0-from= help human-readable inodes max-depth= no-dereference null one-file-system separate-dirs si \
        summarize threshold= time-style= time=? total version",
    ),
    row(
        "egrep",
        Harmless,
        Any,
        "EFGPabcD:d:e:f:hHiIlLm:noqrRsTuUvVwxyzZA:B:C:#",
        "\
        after-context= basic-regexp before-context= binary binary-files= byte-offset color=? colour=? context= \
        count dereference-recursive devices= directories= exclude-dir= exclude-from= exclude= extended-regexp \
        file= files-with-matches files-without-match fixed-strings group-separator= help ignore-case include= \
        initial-tab invert-match label= line-buffered line-number line-regexp max-count= no-filename \
        no-group-separator no-ignore-case no-messages null null-data only-matching perl-regexp quiet recursive \
        regexp= silent text version with-filename word-regexp",
    ),
    row("expand", Harmless, Any, "it:", "help initial tabs= version"),
    row("expr", Harmless, Any, "", ""),
    row(
        "fd",
        Refused,
        Any,
        "HIusigFaLp0d:t:e:E:S:c:j:q1",
        "absolute-path base-directory= case-sensitive changed-before= changed-within= color= exact-depth= exclude= extension= fixed-strings follow full-path glob hidden ignore-case max-depth= max-results= min-depth= no-ignore no-ignore-vcs one-file-system print0 prune quiet regex search-path= size= strip-cwd-prefix threads= type= unrestricted version",
    ),
    row(
        "fgrep",
        Harmless,
        Any,
        "EFGPabcD:d:e:f:hHiIlLm:noqrRsTuUvVwxyzZA:B:C:#",
        "\
        after-context= basic-regexp before-context= binary binary-files= byte-offset color=? colour=? context= \
        count dereference-recursive devices= directories= exclude-dir= exclude-from= exclude= extended-regexp \
        file= files-with-matches files-without-match fixed-strings group-separator= help ignore-case include= \
        initial-tab invert-match label= line-buffered line-number line-regexp max-count= no-filename \
        no-group-separator no-ignore-case no-messages null null-data only-matching perl-regexp quiet recursive \
        regexp= silent text version with-filename word-regexp",
    ),
    row(
        "file",
        Refused,
        Any,
        "bcEhiIkLNnrsv0e:f:F:m:P:",
        "\
        apple brief checking-printout dereference exclude-quiet= exclude= extension files-from= help keep-going \
        list mime mime-encoding mime-type no-buffer no-dereference no-pad parameter= print0 raw \
        separator= special-files version",
    ),
    row(
        "fmt",
        Harmless,
        Any,
        "cg:p:stuw:",
        "\
        crown-margin goal= help prefix= split-only tagged-paragraph uniform-spacing version width=",
    ),
    row("fold", Harmless, Any, "bcsw:", "bytes characters help spaces version width="),
    row(
        "free",
        Harmless,
        Any,
        "bkmghlstc:vwL",
        "\
        bytes count= giga help human kilo lohi mega seconds= si tera total version wide",
    ),
    row("getconf", Refused, Any, "a", ""),
    row(
        "grep",
        Harmless,
        Any,
        "EFGPabcD:d:e:f:hHiIlLm:noqrRsTuUvVwxyzZA:B:C:#",
        "\
        after-context= basic-regexp before-context= binary binary-files= byte-offset color=? colour=? context= \
        count dereference-recursive devices= directories= exclude-dir= exclude-from= exclude= extended-regexp \
        file= files-with-matches files-without-match fixed-strings group-separator= help ignore-case include= \
        initial-tab invert-match label= line-buffered line-number line-regexp max-count= no-filename \
        no-group-separator no-ignore-case no-messages null null-data only-matching perl-regexp quiet recursive \
        regexp= silent text version with-filename word-regexp",
    ),
    row("groups", Harmless, Any, "", "help version"),
    row("hd", Harmless, Any, "bcCde:f:n:os:vx", ""),
    row("head", Harmless, Any, "c:n:qvz#", "bytes= help lines= quiet silent verbose version zero-terminated"),
    row(
        "hexdump",
        Harmless,
        Any,
        "bcCde:f:n:os:vx",
        "\
        canonical color=? format-file= format= help length= no-squeezing one-byte-char one-byte-hex \
        one-byte-octal skip= two-bytes-decimal two-bytes-hex two-bytes-octal version",
    ),
    row("hostid", Harmless, None, "", "help version"),
    row("hostname", Refused, None, "Is", "all-ip-addresses help short version"),
    row("iconv", Refused, Any, "f:t:lcs", "from-code= help list silent to-code= version"),
    row("id", Harmless, Any, "aGgnruzZ", "context group groups help name real user version zero"),
    row(
        "join",
        Harmless,
        Any,
        "a:e:i1:2:j:o:t:v:z",
        "\
        check-order header help ignore-case nocheck-order version zero-terminated",
    ),
    row(
        "jq",
        Harmless,
        Any,
        "acCejMnrRsSUVhL:f:b",
        "\
        arg= argjson= args ascii-output binary build-configuration color-output compact-output exit-status \
        from-file help indent= join-output jsonargs monochrome-output null-input raw-input raw-output \
        raw-output0 rawfile= seq slurp slurpfile= sort-keys stream stream-errors tab unbuffered version",
    ),
    row("locale", Harmless, Any, "ackmv", "all-locales category-name charmaps help keyword-name verbose version"),
    row("logname", Harmless, Any, "", "help version"),
    row(
        "ls",
        Harmless,
        Any,
        "1aAbBcCdDfFgGhHiI:klLmnNopqQrRsStT:uUvw:xXZ",
        "\
        all almost-all author block-size= classify=? color=? context dereference dereference-command-line \
        dereference-command-line-symlink-to-dir directory dired escape file-type format= full-time \
        group-directories-first help hide-control-chars hide= human-readable hyperlink=? ignore-backups ignore= \
        indicator-style= inode kibibytes literal no-group numeric-uid-gid quote-name quoting-style= recursive \
        reverse show-control-chars si size sort= tabsize= time-style= time= version width= zero",
    ),
    row(
        "lsblk",
        Refused,
        Any,
        "abdfiJlmnOo:pPrsStTx:e:I:M",
        "\
        all bytes fs help inverse json list nodeps noheadings output-all output= pairs paths perms raw topology \
        tree=? version",
    ),
    row(
        "lscpu",
        Refused,
        Any,
        "abce::hJp::sVxyB",
        "\
        all bytes extended=? help hex json offline online parse=? physical version",
    ),
    row("lz4cat", Refused, Any, "", ""),
    row("md5", Refused, Any, "pqrs:tx", ""),
    row(
        "md5sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "nl",
        Harmless,
        Any,
        "b:d:f:h:i:l:n:ps:v:w:",
        "\
        body-numbering= footer-numbering= header-numbering= help join-blank-lines= line-increment= no-renumber \
        number-format= number-separator= number-width= section-delimiter= starting-line-number= version",
    ),
    row("nproc", Harmless, Any, "", "all help ignore= version"),
    row(
        "numfmt",
        Harmless,
        Any,
        "d:z",
        "\
        delimiter= field= format= from-unit= from= grouping header=? help invalid= padding= round= suffix= \
        to-unit= to= version zero-terminated",
    ),
    row(
        "od",
        Harmless,
        Any,
        "A:abcdfijlosxj:N:S:t:vw::",
        "\
        address-radix= endian= format= help output-duplicates read-bytes= skip-bytes= strings=? traditional \
        version width=?",
    ),
    row("paste", Harmless, Any, "d:sz", "delimiters= help serial version zero-terminated"),
    row("pathchk", Harmless, Any, "pP", "help portability version"),
    row(
        "pgrep",
        Refused,
        Any,
        "afld:nocvxwiP:g:G:u:U:s:t:r:F:L",
        "\
        count delimiter= euid= exact full group= help ignore-case inverse list-full list-name newest oldest \
        parent= pgroup= session= terminal= uid= version",
    ),
    row("pidof", Refused, Any, "sxco:S:", "check-root omit-pid= separator= single-shot"),
    row("printenv", Harmless, Any, "0", "help null version"),
    row(
        "ps",
        Harmless,
        Any,
        "AadefFjlLmMNcgHhkn:o:O:p:q:rsSTt:u:U:vVwxXyZC:G:D",
        "\
        Group= User= cols= columns= context cumulative deselect forest format= group= headers help info lines= \
        no-headers no-heading pid= ppid= quick-pid= rows= sid= sort= tty= user= version width=",
    ),
    row("pstree", Refused, Any, "acghlnpstTuAUGZC:H:", ""),
    row(
        "readlink",
        Harmless,
        Any,
        "femnqsvz",
        "\
        canonicalize canonicalize-existing canonicalize-missing help no-newline quiet silent verbose version \
        zero",
    ),
    row(
        "realpath",
        Harmless,
        Any,
        "eEmLPqsz",
        "\
        canonicalize canonicalize-existing canonicalize-missing help logical no-symlinks physical quiet \
        relative-base= relative-to= strip version zero",
    ),
    row("rev", Harmless, Any, "0", "help version zero"),
    row(
        "rg",
        Refused,
        Any,
        "aA:B:C:ce:f:Fg:iIHhj:Llm:M:NnopPqr:SsT:t:uUvVwx0d:E:R:",
        "\
        after-context= auto-hybrid-regex before-context= binary block-buffered case-sensitive color= colors= \
        column context-separator= context= count count-matches crlf debug dfa-size-limit= encoding= engine= \
        field-context-separator= field-match-separator= file= files files-with-matches files-without-match \
        fixed-strings follow glob-case-insensitive glob= heading help hidden hyperlink-format= iglob= \
        ignore-case ignore-file= include-zero invert-match json line-buffered line-number line-regexp \
        max-columns-preview max-columns= max-count= max-depth= max-filesize= mmap multiline multiline-dotall \
        no-column no-config no-context-separator no-filename no-heading no-hidden no-ignore no-ignore-dot \
        no-ignore-exclude no-ignore-files no-ignore-global no-ignore-parent no-ignore-vcs no-line-number \
        no-messages no-mmap no-pcre2 no-require-git no-unicode null null-data one-file-system only-matching \
        passthru path-separator= pcre2 pretty quiet regex-size-limit= regexp= replace= smart-case sort= sortr= \
        stats text threads= trace trim type-add= type-clear= type-list type-not= type= unrestricted version \
        vimgrep with-filename word-regexp",
    ),
    row("seq", Harmless, Any, "f:s:w", "equal-width format= help separator= version"),
    row(
        "sha1sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "sha224sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "sha256sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "sha384sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "sha512sum",
        Harmless,
        Any,
        "bctwzl:",
        "\
        binary check help ignore-missing length= quiet status strict tag text version warn zero",
    ),
    row(
        "shasum",
        Harmless,
        Any,
        "a:bctpUs0",
        "\
        UNIVERSAL algorithm= binary check help ignore-missing portable quiet status strict tag text version warn",
    ),
    row("shuf", Refused, Any, "ei:n:rz", "echo head-count= input-range= random-source= repeat zero-terminated"),
    row("size", Refused, Any, "ABdgGotx", "common format= help totals version"),
    row("sleep", Harmless, Any, "", "help version"),
    row(
        "sort",
        Refused,
        Any,
        "bcCdfghiMnrRsuVzk:t:mS:",
        "\
        batch-size= buffer-size= check=? debug dictionary-order field-separator= files0-from= \
        general-numeric-sort help human-numeric-sort ignore-case ignore-leading-blanks ignore-nonprinting key= \
        merge month-sort numeric-sort parallel= random-sort random-source= reverse sort= stable unique version \
        version-sort zero-terminated",
    ),
    row("stat", Refused, Any, "c:fLtf:xs", "cached= dereference file-system format= help printf= terse version"),
    row(
        "strings",
        Refused,
        Any,
        "afn:t:oe:s:wU:",
        "\
        all bytes= data encoding= help include-all-whitespace output-separator= print-file-name radix= unicode= \
        version",
    ),
    row("sum", Harmless, Any, "rs", "help sysv version"),
    row("tac", Harmless, Any, "brs:", "before help regex separator= version"),
    row(
        "tail",
        Harmless,
        Any,
        "c:fFn:qrvs:z#",
        "\
        bytes= follow=? help lines= max-unchanged-stats= pid= quiet retry silent sleep-interval= verbose version \
        zero-terminated",
    ),
    row("tr", Harmless, Any, "cCdst", "complement delete help squeeze-repeats truncate-set1 version"),
    row("tsort", Harmless, Any, "", "help version"),
    row("tty", Harmless, Any, "s", "help quiet silent version"),
    row(
        "uname",
        Harmless,
        Any,
        "asnrvmpio",
        "\
        all hardware-platform help kernel-name kernel-release kernel-version machine nodename operating-system \
        processor version",
    ),
    row("unexpand", Harmless, Any, "at:", "all first-only help tabs= version"),
    row(
        "uniq",
        Refused,
        OneLast,
        "cdDf:is:uw:z",
        "\
        all-repeated=? check-chars= count group=? help ignore-case repeated skip-chars= skip-fields= unique \
        version zero-terminated",
    ),
    row("uptime", Harmless, Any, "psV", "help pretty since version"),
    row("users", Harmless, Any, "", "help version"),
    row("wc", Harmless, Any, "cmlLw", "bytes chars files0-from= help lines max-line-length total= version words"),
    row("whereis", Refused, Any, "bmsulB:M:S:f", ""),
    row("which", Harmless, Any, "as", "all help version"),
    row("who", Harmless, Any, "abdHlmpqrsTtu", ""),
    row("whoami", Harmless, Any, "", "help version"),
    row("xzcat", Refused, Any, "", ""),
    row("yes", Harmless, Any, "", "help version"),
    row(
        "yq",
        Refused,
        Any,
        "rcePCMNnjyYI:o:p:",
        "colors exit-status indent= input-format= no-colors no-doc null-input output-format= prettyPrint raw-output unwrapScalar=? version",
    ),
    row("zcat", Refused, Any, "", ""),
    row("zipinfo", Refused, Any, "12slmvhtTzMC", ""),
    row("zstdcat", Refused, Any, "", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(PLAIN.is_sorted_by_key(|row| row.name));
        for row in PLAIN {
            let long: Vec<&str> = row.grammar.long.split_ascii_whitespace().collect();
            assert!(long.is_sorted_by(|a, b| a < b), "{}", row.name);
        }
    }
}
