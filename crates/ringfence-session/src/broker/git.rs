//! Settings of repositories that are made inside: git writes them as `config.lock` and moves that into place.
//!
//! Such a file names programs that git runs, so nobody inside may write it. But a new repository must have one. So what is to
//! be moved into place is read, and if every setting in it is known to be harmless, the same settings are written to a file of
//! ours, which takes its place: nobody inside has a descriptor of that one.

use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_git::config::{self as git_config, Entry};
use ringfence_surface::curated::settings::GIT_REPOSITORY;
use ringfence_surface::{AbsPath, Access, Because, Effect};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::caller::c_string;
use super::judge::Ruling;
use super::resolve::Place;
use super::work::{Reply, Stop, Work};

/// Nobody's configuration is longer.
const LONGEST: usize = 256 << 10;

impl Work<'_, '_> {
    /// Is this a configuration that only git's own way of writing it could bring into place?
    pub(super) fn is_vetted(&self, old: &Place, new: &AbsPath) -> bool {
        let is_lock = new.parent().is_some_and(|dir| dir == old.at)
            && new.file_name().is_some_and(|name| old.name == [name, b".lock"].concat());
        is_lock && self.is_repositorys(new)
    }

    /// Is this the configuration of a repository, and protected for that alone?
    pub(super) fn is_repositorys(&self, path: &AbsPath) -> bool {
        let name = path.file_name();
        let is_config = matches!(name, Some(b"config" | b"config.worktree"));
        let is_in_git = path.components().any(|name| name.ends_with(b".git"));
        if !(is_config && is_in_git || name == Some(b".gitmodules")) {
            return false;
        }
        let Ruling::Refused(verdict) = self.judge(path, Access::Write) else { return false };
        matches!(verdict.because, Because::Rule(rule) if rule.effect == Effect::Protect && !rule.source.is_written())
    }

    /// Moves a configuration into place, if it is one.
    pub(super) fn vetted(
        &mut self,
        old: &Place,
        new: &Place,
        path: &AbsPath,
        flags: RenameFlags,
    ) -> Result<Option<Reply>, Stop> {
        if !flags.is_empty() || !self.is_vetted(old, path) {
            return Ok(None);
        }
        // Nobody writes to it, or puts another in its place, while it is looked at.
        self.alone()?;
        let name = c_string(&old.name)?;
        let (text, mode) = read(old)?;
        // What is there already needs no right, whatever it says: `git submodule update` sets what is set.
        if text.is_some() && text == there(new)? {
            self.perform(|| rustix::fs::unlinkat(&old.dir, name.as_c_str(), AtFlags::empty()))?;
            return Ok(Some(Reply::Done));
        }
        let entries = text.as_deref().and_then(git_config::parse_whole);
        let is_submodules = path.components().any(|name| name == b"modules");
        let Some(entries) = entries.filter(|all| all.iter().all(|entry| is_harmless(entry, is_submodules))) else {
            return self.refuse_or_ask(new.dir.as_fd(), path, Access::Write).map(|()| None);
        };
        let copy = copy(&old.dir, &git_config::write_as_git(&entries), mode)?;
        let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&copy));
        let new_name = new.spelled()?;
        self.perform(|| {
            rustix::fs::unlinkat(&old.dir, name.as_c_str(), AtFlags::empty())?;
            rustix::fs::linkat(rustix::fs::CWD, held, &old.dir, name.as_c_str(), AtFlags::SYMLINK_FOLLOW)?;
            rustix::fs::renameat_with(&old.dir, name.as_c_str(), &new.dir, new_name.as_c_str(), flags)
        })
        .map_err(|errno| self.told_if_held(path, errno))?;
        Ok(Some(Reply::Done))
    }
}

/// What a file says, unless it is no file or too long, and its mode.
fn read(place: &Place) -> rustix::io::Result<(Option<Vec<u8>>, Mode)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(&place.dir, c_string(&place.name)?.as_c_str(), flags, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    Ok((if is_file { content(&file)? } else { None }, Mode::from_raw_mode(status.st_mode & 0o777)))
}

/// What is at a place, if anything can be read there.
fn there(place: &Place) -> rustix::io::Result<Option<Vec<u8>>> {
    match read(place) {
        Ok((text, _)) => Ok(text),
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// All of a file, unless it is too long.
fn content(file: &OwnedFd) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut text = vec![0; LONGEST + 1];
    let mut length = 0;
    loop {
        match rustix::io::read(file, &mut text[length..])? {
            0 => break,
            read => length += read,
        }
    }
    text.truncate(length);
    Ok((length <= LONGEST).then_some(text))
}

/// A new file without a name.
fn copy(dir: &OwnedFd, text: &[u8], mode: Mode) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::openat(dir, c".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    let mut left = text;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = left.get(written..).ok_or(Errno::IO)?;
    }
    Ok(file)
}

/// Does a setting start nothing, and lead nowhere else?
fn is_harmless(entry: &Entry, is_submodules: bool) -> bool {
    if !entry.matches_any(GIT_REPOSITORY.iter().map(|row| row.pattern)) {
        return false;
    }
    let value = entry.value.as_deref().unwrap_or_default();
    match (entry.section.as_slice(), entry.name.as_slice()) {
        (b"remote" | b"submodule", b"url" | b"pushurl") => is_plain_address(value),
        // `!command` would be one.
        (b"submodule", b"update") => matches!(value, b"checkout" | b"rebase" | b"merge" | b"none"),
        (b"submodule", b"path") => is_beneath(value),
        (b"core", b"worktree") => is_submodules && is_back_and_beneath(value),
        _ => true,
    }
}

/// `ext::sh -c ..` is a command; what begins with a dash may become an option of ssh.
fn is_plain_address(address: &[u8]) -> bool {
    let helper = address.windows(2).position(|pair| pair == b"::");
    let is_helper =
        helper.is_some_and(|at| address[..at].iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)));
    let is_option = address.first() == Some(&b'-') || contains(address, b"://-") || contains(address, b"@-");
    !is_helper && !is_option && !address.iter().any(u8::is_ascii_control)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn is_beneath(path: &[u8]) -> bool {
    !path.is_empty()
        && path.first() != Some(&b'/')
        && path.first() != Some(&b'-')
        && !path.split(|b| *b == b'/').any(|name| name == b"..")
}

/// Out of the repository's own directories, and then down.
fn is_back_and_beneath(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(after) = rest.strip_prefix(b"../") {
        rest = after;
    }
    is_beneath(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let entries = git_config::parse_whole(text.as_bytes());
        let is_harmless = entries.is_some_and(|all| all.iter().all(|entry| is_harmless(entry, true)));
        assert_eq!(is_harmless, expected, "{text}");
    }

    #[test]
    fn what_git_writes_is_harmless() {
        check(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            true,
        );
        check("[remote \"origin\"]\n\turl = https://host/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", true);
        check(
            "[remote \"origin\"]\n\turl = git@host:a/b.git\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            true,
        );
        check("[remote \"o\"]\n\turl = ../bare.git\n", true);
        check("[submodule \"x\"]\n\tpath = lib/x\n\turl = https://[::1]:8080/x\n\tupdate = checkout\n", true);
        check("[core]\n\tworktree = ../../../lib/x\n", true);
        check("", true);
    }

    #[test]
    fn what_starts_something_is_not() {
        for text in [
            "[core]\n\thooksPath = x\n",
            "[core]\n\tfsmonitor = ./x\n",
            "[core]\n\tsshCommand = x\n",
            "[core]\n\tpager = x\n",
            "[core]\n\tworktree = /home\n",
            "[core]\n\tworktree = a/../../b\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:x\"]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[alias]\n\tst = !x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\turl = -oProxyCommand=x\n",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y\n",
            "[remote \"o\"]\n\tvcs = x\n",
            "[remote \"o\"]\n\tuploadpack = x\n",
            "[remote \"o\"]\n\tproxy = x\n",
            "[url \"ext::x\"]\n\tinsteadOf = https://\n",
            "[submodule \"x\"]\n\tupdate = !x\n",
            "[submodule \"x\"]\n\tpath = ../x\n",
            "[credential]\n\thelper = x\n",
            "[gpg]\n\tprogram = x\n",
            "[core]\n\tbare = false\n garbage !",
            "[core.x\n",
        ] {
            check(text, false);
        }
    }

    /// What is put in place is read by git as what was looked at.
    #[test]
    fn what_is_written_is_what_was_read() {
        let text = b"[remote \"a\\\"b\"]\n\turl = \"https://x/#y z\"\n\tfetch = +refs/heads/*:refs/x/*\n[core]\n\tbare\n\teol = \"\"\n";
        let entries = git_config::parse_whole(text).unwrap();
        assert_eq!(entries.len(), 4);
        assert_eq!(git_config::parse_whole(&git_config::write_as_git(&entries)), Some(entries));
    }
}
