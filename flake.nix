{
  description = "Decide which files and hosts a spawned coding agent may touch, and make every layer enforce exactly that";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      forAll = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      packages = forAll (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "ringfence";
            version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
            src = self;
            cargoLock.lockFile = ./Cargo.lock;
            cargoBuildFlags = [
              "--package"
              "ringfence"
            ];
            RINGFENCE_COMMIT = self.rev or "unknown";
            # The tests build sandboxes, which the sandbox of the build does not let them do.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = ''
              $out/bin/ringfence man > ringfence.1
              installManPage ringfence.1
              installShellCompletion --cmd ringfence \
                --bash <($out/bin/ringfence completions bash) \
                --zsh <($out/bin/ringfence completions zsh) \
                --fish <($out/bin/ringfence completions fish)
            '';
            meta = {
              homepage = "https://github.com/ringfence/ringfence";
              license = with pkgs.lib.licenses; [
                mit
                asl20
              ];
              platforms = pkgs.lib.platforms.linux;
              mainProgram = "ringfence";
            };
          };
        }
      );
    };
}
