//! Go: modules without dependencies, and one in the user's own cache.

use crate::desk::each;
use crate::table::GO;

/// A module as a proxy keeps it.
const PROXY: &str = r#"
mkdir -p ~/proxy/example.com/tiny/@v && cd ~/proxy/example.com/tiny/@v
printf 'module example.com/tiny\n' > v1.0.0.mod
printf '{"Version":"v1.0.0"}' > v1.0.0.info
mkdir -p example.com/tiny@v1.0.0 && cp v1.0.0.mod example.com/tiny@v1.0.0/go.mod
printf 'package tiny\n\nfunc Seven() int { return 7 }\n' > example.com/tiny@v1.0.0/tiny.go
zip -q v1.0.0.zip example.com/tiny@v1.0.0/*
"#;

/// M1: in a root of its own too.
#[test]
fn a_module_is_built_tested_and_run() {
    each(&GO, |desk| {
        desk.prepare(PROXY);
        desk.write("go.mod", "module example.com/app\n\ngo 1.18\n\nrequire example.com/tiny v1.0.0\n");
        desk.write(
            "main.go",
            "package main\n\nimport \"example.com/tiny\"\n\nfunc seven() int { return tiny.Seven() }\nfunc \
             main() { println(seven()) }\n",
        );
        desk.write(
            "main_test.go",
            "package main\n\nimport \"testing\"\n\nfunc TestSeven(t *testing.T) {\n\tif seven() != 7 \
             {\n\t\tt.Fail()\n\t}\n}\n",
        );
        let proxy = format!("file://{}", desk.home("proxy").to_str().unwrap());
        desk.prepare(&format!(
            "GOPROXY={proxy} GONOSUMDB='*' GOFLAGS=-mod=mod go mod download && \
             GOPROXY={proxy} GONOSUMDB='*' go mod tidy"
        ));
        desk.prepare("rm -rf ~/proxy");
        desk.works(&[
            ("a module builds, with another that the user has already", "go build -o app ."),
            ("what it built runs", "test \"$(./app 2>&1)\" = 7"),
            ("tests run", "go test ./... | grep -q ^ok"),
            ("a file is run directly", "test \"$(go run . 2>&1)\" = 7"),
            (
                "an unformatted file is formatted",
                "echo 'package main;func   f( ){}' > f.go && test -n \"$(gofmt -l .)\" && gofmt -w f.go && \
                 test -z \"$(gofmt -l f.go)\"",
            ),
            (
                "a module is begun",
                "mkdir new && cd new && go mod init example.com/new 2> /dev/null && \
                 printf 'package main\\nfunc main() {}\\n' > m.go && go vet",
            ),
            ("modules are verified", "go mod verify | grep -q verified"),
            (
                "what go keeps is the project's own",
                "case $(go env GOMODCACHE) in */ringfence/*) ;; *) false ;; esac && test -w \"$(go env GOCACHE)\"",
            ),
        ]);
    });
}
