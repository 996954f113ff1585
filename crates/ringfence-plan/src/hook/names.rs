//! Patterns for names of files, as far as they say where to look.

/// The directory that a pattern looks in, or the path that it is; `None` where that is the root of the search itself.
///
/// # Errors
/// Where a pattern can lead somewhere else than its beginning says.
pub(crate) fn base(pattern: &str) -> Result<Option<String>, &'static str> {
    let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
    if pattern.chars().any(char::is_control) {
        return Err("it holds a control character");
    }
    let Some(wild) = pattern.find(['*', '?', '[', '{', '(', '\\']) else {
        return Ok(Some(pattern.to_owned()).filter(|path| !path.is_empty()));
    };
    let cut = pattern[..wild].rfind('/').map_or(0, |slash| slash + 1);
    let (base, rest) = pattern.split_at(cut);
    if rest.contains("..") {
        return Err("`..` follows a wildcard");
    }
    // An alternative may be a path of its own: `{/etc,x}/*`. So may what a backslash hides.
    let starts = ["{/", ",/", "(/", "|/", "{~", ",~", "(~", "|~"];
    if starts.iter().any(|start| rest.contains(start)) || cut == 0 && rest.contains('\\') {
        return Err("an alternative in it is a path of its own");
    }
    Ok(match base {
        "" => None,
        "/" => Some("/".to_owned()),
        base => Some(base.trim_end_matches('/').to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: &str) {
        let got = base(pattern).map_or("refused".to_owned(), |base| base.unwrap_or_else(|| "root".to_owned()));
        assert_eq!(got, expected, "{pattern}");
    }

    #[test]
    fn g5_where_patterns_look() {
        check("**/*.txt", "root");
        check("*.rs", "root");
        check("{a,b}/*.rs", "root");
        check("src/**/*.rs", "src");
        check("src/a?.rs", "src");
        check("/etc/*", "/etc");
        check("/*", "/");
        check("../*", "..");
        check("../../secret.txt", "../../secret.txt");
        check("a/../../b/*", "a/../../b");
        check("~/.ssh/*", "~/.ssh");
        check("!**/node_modules", "root");
        check("Cargo.toml", "Cargo.toml");
        check("", "root");
    }

    #[test]
    fn g5_patterns_in_disguise() {
        check("*/../../etc/*", "refused");
        check("{..,x}/*", "refused");
        check("{/etc,src}/*", "refused");
        check("{src,/etc}/*", "refused");
        check("@(/etc|x)/*", "refused");
        check("{~/.ssh,x}/*", "refused");
        check("\\/etc/*", "refused");
        check("[.][.]/[.]./x", "root");
        check("a\n/etc/*", "refused");
    }
}
