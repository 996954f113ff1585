//! K9: programs that developers use reach what the policy names, without being told of any proxy.

use crate::internet::{Who, each, with};

/// A repository that any web server can serve.
const REPOSITORY: &str = r#"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q tree && cd tree && echo seven > file && git add file && git commit -qm first && cd ..
git clone -q --bare tree repo.git && git -C repo.git update-server-info && rm -rf tree
"#;

/// A package of each kind, as the registries serve them.
const PACKAGES: &str = r#"
mkdir -p tiny-1.0.0/src && printf '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n' > tiny-1.0.0/Cargo.toml
echo 'pub const SEVEN: u8 = 7;' > tiny-1.0.0/src/lib.rs
mkdir -p dl index/ti/ny && tar czf dl/tiny-1.0.0.crate tiny-1.0.0 && rm -r tiny-1.0.0
sum=$(sha256sum dl/tiny-1.0.0.crate | cut -d' ' -f1)
echo '{"dl": "https://rust.example.com/dl/{crate}-{version}.crate"}' > index/config.json
echo '{"name":"tiny","vers":"1.0.0","deps":[],"features":{},"yanked":false,"cksum":"'$sum'"}' > index/ti/ny/tiny

mkdir -p package && echo '{"name": "tiny", "version": "1.0.0"}' > package/package.json && echo 'module.exports = 7' > package/index.js
tar czf tiny-npm.tgz package && rm -r package
sum=sha512-$(openssl dgst -sha512 -binary tiny-npm.tgz | base64 -w0)
echo '{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0",
"dist":{"tarball":"https://js.example.com/tiny-npm.tgz","integrity":"'$sum'"}}}}' > tiny

python3 - <<'END'
import os, zipfile
os.makedirs("simple/tiny")
wheel = "tiny-1.0.0-py3-none-any.whl"
with zipfile.ZipFile("simple/tiny/" + wheel, "w") as z:
    z.writestr("tiny.py", "SEVEN = 7\n")
    z.writestr("tiny-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n")
    z.writestr("tiny-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("tiny-1.0.0.dist-info/RECORD", "")
open("simple/tiny/index.html", "w").write(f'<a href="{wheel}">{wheel}</a>')
os.makedirs("example.com/tiny/@v")
with zipfile.ZipFile("example.com/tiny/@v/v1.0.0.zip", "w") as z:
    z.writestr("example.com/tiny@v1.0.0/go.mod", "module example.com/tiny\n")
    z.writestr("example.com/tiny@v1.0.0/tiny.go", "package tiny\n\nfunc Seven() int { return 7 }\n")
open("example.com/tiny/@v/v1.0.0.mod", "w").write("module example.com/tiny\n")
open("example.com/tiny/@v/v1.0.0.info", "w").write('{"Version":"v1.0.0"}')
END
"#;

/// As much of the toolchain that runs this test as it takes to fetch something. Its files are linked where that is possible.
const TOOLCHAIN: &str = r#"
from=$(dirname "$(dirname "$(readlink -f "CARGO")")") to=../project/toolchain
mkdir -p $to/bin $to/lib
for file in bin/cargo bin/rustc; do cp -l "$from/$file" $to/bin/ || cp "$from/$file" $to/bin/; done
for file in "$from"/lib/*.so*; do cp -l "$file" $to/lib/ || cp "$file" $to/lib/; done
"#;

#[test]
fn k9_clients_reach_what_is_listed() {
    each(|internet| {
        internet.publish(REPOSITORY);
        internet.works(&[
            ("no program is told of a proxy", "! env | grep -i _proxy="),
            ("curl, http", "test \"$(curl -sS http://site.example.com/hello)\" = 'hello site.example.com'"),
            ("curl, https", "test \"$(curl -sS https://site.example.com/hello)\" = 'hello site.example.com'"),
            ("curl, by IPv6", "curl -6 -sSf https://site.example.com/hello"),
            ("curl, by IPv4", "curl -4 -sSf https://site.example.com/hello"),
            ("curl, at a port that is listed", "curl -sSf http://site.example.com:8080/hello"),
            ("curl, a name below a wildcard", "curl -sSf https://a.wild.example.org:8443/hello"),
            ("curl, a name of the hosts file is the policy's all the same", "! curl -sSf http://listed.example.com/hello"),
            ("curl, a name with a dot at its end", "curl -sSf http://site.example.com./hello"),
            ("curl, a name in upper case", "curl -sSf http://SITE.Example.COM/hello"),
            ("curl, a name whose first address is silent", "curl -sSf --max-time 15 http://late.example.com/hello"),
            ("curl, a name with a long answer", "curl -sSf http://long.example.com/hello"),
            ("curl, much", "test $(curl -sSf https://site.example.com/bytes/20000000 | wc -c) = 20000000"),
            ("curl, with a proxy that it insists on", "curl -sSf -x http://198.18.0.2:1080 https://site.example.com/hello"),
            ("curl, with the older kind of proxy", "curl -sSf -x socks5h://198.18.0.2:1080 https://site.example.com/hello"),
            ("curl, a redirect to another host that is listed", "curl -sSfL http://site.example.com/to/https://github.com/hello"),
            ("git over http", "git clone -q http://git.example.com/repo.git a && grep seven a/file"),
            ("git over https", "GIT_SSL_CAINFO=$SSL_CERT_FILE git clone -q https://git.example.com/repo.git b && grep seven b/file"),
            (
                "python",
                "python3 -c 'import urllib.request as u; assert b\"hello\" in u.urlopen(\"https://site.example.com/hello\").read()'",
            ),
            (
                "node",
                "NODE_EXTRA_CA_CERTS=$SSL_CERT_FILE node -e \"fetch('https://site.example.com/hello').then(r => r.text()).then(t => \
                 process.exit(t.startsWith('hello') ? 0 : 1), e => { console.log(e); process.exit(2) })\"",
            ),
            (
                "node, with a resolver of its own",
                "node -e \"require('dns').promises.resolve4('site.example.com').then(a => process.exit(a[0].startsWith('198.18.') ? 0 : 1))\"",
            ),
            (
                "what one side ends goes on in the other direction",
                "test \"$(python3 -c '
import socket
s = socket.create_connection((\"site.example.com\", 7))
s.sendall(bytes(3000000))
s.shutdown(socket.SHUT_WR)
n = 0
while d := s.recv(65536): n += len(d)
print(n)')\" = 3000000",
            ),
        ]);
    });
}

/// Mail, databases and SSH: the client says nothing before the server has, and what it says then is neither TLS nor HTTP. Whoever
/// waited for the client's first words would wait longer than these do.
#[test]
fn k9_servers_that_speak_first_are_heard_at_once() {
    with(Who::Ordinary, |internet| {
        let talk = |port: u16, greeting: &str, words: &str| {
            format!(
                "timeout 20 python3 -c '
import socket
s = socket.create_connection((\"site.example.com\", {port}))
assert s.recv(99).startswith({greeting})
s.sendall({words})
assert s.recv(99) == b\"heard \" + {words}
assert s.recv(99) == b\"\"'"
            )
        };
        internet.works(&[
            ("mail", &talk(25, "b\"220 \"", "b\"EHLO a.example\\r\\n\"")),
            ("a database", &talk(3306, "b\"\\x4a\\0\"", "b\"\\x20\\0\\0\\1\\x85\\xae\\xff\"")),
        ]);
    });
}

/// What package managers ask for.
#[test]
fn k9_package_managers_reach_their_registries() {
    each(|internet| {
        internet.publish(PACKAGES);
        internet.publish(&TOOLCHAIN.replace("CARGO", &std::env::var("CARGO").unwrap()));
        internet.write(
            "cargo/Cargo.toml",
            "[package]\nname = \"app\"\nedition = \"2021\"\n[dependencies]\ntiny = { version = \"1\", registry = \"mine\" }\n",
        );
        internet.write("cargo/src/lib.rs", "");
        internet.write(
            "cargo/.cargo/config.toml",
            "[registries.mine]\nindex = \"sparse+https://rust.example.com/index/\"\n",
        );
        internet.write("go/go.mod", "module example.com/app\n\ngo 1.18\n");
        internet.write(
            "go/main.go",
            "package main\n\nimport (\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() {\n\tr, err := \
             http.Get(\"https://site.example.com/hello\")\n\tif err != nil || r.StatusCode != 200 {\n\t\tprintln(err.Error())\n\t\tos.Exit(1)\n\t}\n}\n",
        );
        internet.works(&[
            (
                "cargo",
                "export PATH=$PWD/toolchain/bin:$PATH CARGO_HOME=/tmp/cargo CARGO_HTTP_CAINFO=$SSL_CERT_FILE && cd cargo && \
                 cargo fetch -v && test -f /tmp/cargo/registry/src/*/tiny-1.0.0/src/lib.rs",
            ),
            (
                "npm",
                "mkdir npm && cd npm && npm_config_cafile=$SSL_CERT_FILE npm install --registry=https://js.example.com/ tiny && \
                 test $(node -p 'require(\"tiny\")') = 7",
            ),
            (
                "pip",
                "/usr/bin/python3 -m venv venv && venv/bin/pip install -q --cert \"$SSL_CERT_FILE\" --disable-pip-version-check \
                 --index-url https://py.example.com/simple/ tiny && venv/bin/python -c 'import tiny; assert tiny.SEVEN == 7'",
            ),
            (
                "go, modules",
                "cd go && GOPROXY=https://go.example.com GONOSUMDB='*' GOFLAGS=-mod=mod go mod download -x example.com/tiny@v1.0.0",
            ),
            ("go, a program", "cd go && go build -o client . && ./client && GODEBUG=netdns=go ./client"),
        ]);
    });
}
