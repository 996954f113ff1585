class Ringfence < Formula
  desc "Decide which files and hosts a spawned coding agent may touch"
  homepage "https://github.com/ringfence/ringfence"
  url "https://github.com/ringfence/ringfence/releases/download/v@VERSION@/@TARBALL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :@BREW_ARCH@
  depends_on :linux

  def install
    bin.install "bin/ringfence"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/ringfence"
    zsh_completion.install "share/zsh/site-functions/_ringfence"
    fish_completion.install "share/fish/vendor_completions.d/ringfence.fish"
  end

  def caveats
    "Run `ringfence doctor`: it says whether the full sandbox works on this machine."
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/ringfence --version")
  end
end
