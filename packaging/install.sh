#!/bin/sh
# Installs ringfence for one user: curl -fsSL https://github.com/ringfence/ringfence/releases/latest/download/install.sh | sh
#
# Everything is downloaded and verified in a directory of its own before the first file is put in place, and each file is put in
# place whole. The list of what was installed is kept, and `--uninstall` removes exactly that.
#
# The whole script is in functions, and the last line starts them: of a truncated download nothing runs.
set -eu
umask 022
export LC_ALL=C

VERSION='@VERSION@'
RELEASES='https://github.com/ringfence/ringfence/releases/download'
# Who may sign SHA256SUMS: a line as in ssh's allowed_signers for the principal "ringfence", and a minisign public key. Empty where
# the release is not signed.
SSH_SIGNER='@SSH_SIGNER@'
MINISIGN_KEY='@MINISIGN_KEY@'

usage() {
  cat << 'END'
usage: install.sh [--version VERSION] [--prefix DIR] [--uninstall]

  --version VERSION  install this version, not the one that the script came with
  --prefix DIR       install to DIR/bin and DIR/share (without it: ~/.local)
  --uninstall        remove what an earlier run installed to the prefix

RINGFENCE_DOWNLOAD_URL  where the files of one version are, in place of the project's releases
END
}

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "install.sh: error: $1"
  shift
  for line in "$@"; do say "$line"; done
  exit 1
}

has() { command -v "$1" > /dev/null 2>&1; }

need() {
  for tool in "$@"; do
    has "$tool" || fail "\`$tool\` is missing" "hint: install it and run this again; nothing was changed"
  done
}

target() {
  system=$(uname -s)
  machine=$(uname -m)
  [ "$system" = Linux ] || fail "ringfence runs on Linux; this is $system"
  case $machine in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "there is no build of ringfence for $machine" "hint: build it from source: cargo install ringfence" ;;
  esac
}

# download URL FILE
download() {
  if has curl; then
    curl --fail --silent --show-error --location --retry 2 --output "$2" "$1" ||
      fail "cannot download $1" "hint: nothing was changed; run this again"
  else
    wget --quiet --output-document "$2" "$1" ||
      fail "cannot download $1" "hint: nothing was changed; run this again"
  fi
}

# A signature is checked where the release has one and a tool is there that can. A wrong one is an error, and so is a missing one.
verify_signature() {
  checked=
  if [ -n "$SSH_SIGNER" ] && has ssh-keygen; then
    download "$base/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
    printf '%s\n' "$SSH_SIGNER" > "$work/signers"
    ssh-keygen -Y verify -f "$work/signers" -I ringfence -n file -s "$work/SHA256SUMS.sig" \
      < "$work/SHA256SUMS" > /dev/null 2>&1 || fail "the signature of SHA256SUMS is wrong" "hint: nothing was changed"
    checked=ssh-keygen
  elif [ -n "$MINISIGN_KEY" ] && has minisign; then
    download "$base/SHA256SUMS.minisig" "$work/SHA256SUMS.minisig"
    minisign -Vqm "$work/SHA256SUMS" -x "$work/SHA256SUMS.minisig" -P "$MINISIGN_KEY" > /dev/null 2>&1 ||
      fail "the signature of SHA256SUMS is wrong" "hint: nothing was changed"
    checked=minisign
  fi
  if [ -n "$checked" ]; then
    say "verified: checksum, signature ($checked)"
  elif [ -z "$SSH_SIGNER$MINISIGN_KEY" ]; then
    say "verified: checksum (this release has no signature)"
  else
    say "verified: checksum (no signature: neither ssh-keygen nor minisign is here)"
  fi
}

verify_checksum() {
  wanted=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
  case $wanted in
    '') fail "SHA256SUMS of $VERSION does not list $1" "hint: there may be no build for this machine; nothing was changed" ;;
    *[!0-9a-f]*) fail "SHA256SUMS is not a list of checksums" "hint: nothing was changed" ;;
  esac
  found=$(sha256sum "$work/$1" | awk '{ print $1 }')
  [ "$wanted" = "$found" ] || fail "the checksum of $1 is wrong: $found, and not $wanted" \
    "hint: the download was cut short or changed on the way; nothing was changed"
}

# place SOURCE TARGET: whole or not at all.
place() {
  mkdir -p "${2%/*}" || fail "cannot write to ${2%/*}" "hint: name another place with --prefix"
  cp "$1" "$2.ringfence-new" || { rm -f "$2.ringfence-new"; fail "cannot write $2" "hint: name another place with --prefix"; }
  mv -f "$2.ringfence-new" "$2" || { rm -f "$2.ringfence-new"; fail "cannot write $2"; }
}

# Before anything is downloaded: a place that cannot be written is reported first.
can_write() {
  dir=$prefix/bin
  while [ ! -e "$dir" ]; do dir=$(dirname "$dir"); done
  [ -d "$dir" ] && [ -w "$dir" ] || fail "cannot write to $dir" "hint: name another place with --prefix; nothing was changed"
}

# The directories that are made for the files, with a slash at the end: --uninstall leaves those that were there before.
new_directories() {
  [ -d "$prefix" ] || echo ./
  while IFS= read -r file; do
    dir=$(dirname "$file")
    while [ "$dir" != . ]; do
      [ -d "$prefix/$dir" ] || echo "$dir/"
      dir=$(dirname "$dir")
    done
  done < "$work/list"
}

install() {
  need uname mktemp tar gzip awk sha256sum cp mv rm mkdir rmdir dirname
  has curl || has wget || fail "neither \`curl\` nor \`wget\` is here" "hint: install one of them; nothing was changed"
  target
  can_write
  base=${RINGFENCE_DOWNLOAD_URL:-$RELEASES/v$VERSION}
  work=$(mktemp -d) || fail "cannot make a directory in ${TMPDIR:-/tmp}"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  name=ringfence-$VERSION-linux-$arch
  download "$base/SHA256SUMS" "$work/SHA256SUMS"
  download "$base/$name.tar.gz" "$work/$name.tar.gz"
  verify_checksum "$name.tar.gz"
  verify_signature
  mkdir "$work/unpacked"
  tar -xzf "$work/$name.tar.gz" -C "$work/unpacked" || fail "cannot unpack $name.tar.gz" "hint: nothing was changed"
  tree=$work/unpacked/$name
  "$tree/bin/ringfence" --version > /dev/null || fail "the program does not start on this machine" "hint: nothing was changed"

  (cd "$tree" && find bin share -type f) | sort > "$work/list"
  list=$prefix/share/ringfence/installed
  # The list first: what an interrupted run leaves behind is known to --uninstall too.
  echo share/ringfence/installed >> "$work/list"
  { cat "$work/list"; new_directories; [ ! -e "$list" ] || cat "$list"; } | sort -u > "$work/all"
  place "$work/all" "$list"
  while IFS= read -r file; do
    case $file in
      bin/ringfence | share/ringfence/installed) ;;
      *) place "$tree/$file" "$prefix/$file" ;;
    esac
  done < "$work/list"
  # The program last: with it everything else is there.
  place "$tree/bin/ringfence" "$prefix/bin/ringfence"
  say "installed: $prefix/bin/ringfence ($("$prefix/bin/ringfence" --version))"
  case :$PATH: in
    *:"$prefix/bin":*) next=ringfence ;;
    *)
      say "note: $prefix/bin is not on PATH; add this line to the start file of your shell:"
      say "  export PATH=\"$prefix/bin:\$PATH\""
      next=$prefix/bin/ringfence
      ;;
  esac
  say "next: $next doctor"
}

uninstall() {
  need rm rmdir awk sort
  list=$prefix/share/ringfence/installed
  [ -f "$list" ] || fail "$list is missing: install.sh has installed nothing to $prefix"
  [ -w "$prefix/bin" ] && [ -w "${list%/*}" ] || fail "cannot write to $prefix" "hint: nothing was changed"
  # Only what the installer itself can have listed.
  files=$(awk '/^(bin\/ringfence$|\.\/$|bin\/$|share\/)/ && !/\.\./' "$list" | sort -r)
  printf '%s\n' "$files" | while IFS= read -r file; do
    case $file in */) ;; *) rm -f "$prefix/$file" ;; esac
  done
  # In reverse order what is in a directory comes before it. Those that others use by now stay.
  printf '%s\n' "$files" | while IFS= read -r file; do
    case $file in
      ./) rmdir "$prefix" 2> /dev/null || : ;;
      */) rmdir "$prefix/${file%/}" 2> /dev/null || : ;;
    esac
  done
  say "removed: ringfence from $prefix"
}

main() {
  prefix=
  action=install
  while [ $# -gt 0 ]; do
    case $1 in
      --version | --prefix)
        [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
        if [ "$1" = --version ]; then VERSION=${2#v}; else prefix=$2; fi
        shift
        ;;
      --uninstall) action=uninstall ;;
      --help | -h) usage; exit 0 ;;
      *) usage >&2; fail "unknown argument: $1" ;;
    esac
    shift
  done
  case $VERSION in
    '' | *[!0-9A-Za-z.+-]*) fail "not a version: $VERSION" ;;
  esac
  if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set" "hint: name a place with --prefix"
    prefix=$HOME/.local
  fi
  case $prefix in
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
  esac
  $action
}

main "$@"
