//! Node: npm with local packages, scripts, and a package in the user's own cache.

use std::fs;
use std::process::Command;

use crate::desk::{Desk, each};
use crate::served::Served;
use crate::table::NODE;

/// A package that a registry serves.
fn dependency(desk: &Desk, served: &Served) {
    desk.write_home(
        "source/package/package.json",
        "{\"name\": \"tiny\", \"version\": \"1.0.0\", \"main\": \"index.js\"}",
    );
    desk.write_home("source/package/index.js", "module.exports = 7;\n");
    let source = desk.home("source");
    let tar = Command::new("tar").args(["-czf", "tiny.tgz", "package"]).current_dir(&source).status().unwrap();
    assert!(tar.success());
    let hash = "import base64, hashlib, sys; \
                sys.stdout.write(base64.b64encode(hashlib.sha512(open('tiny.tgz', \
                'rb').read()).digest()).decode())";
    let hash = Command::new("/usr/bin/python3").args(["-c", hash]).current_dir(&source).output().unwrap().stdout;
    let hash = String::from_utf8(hash).unwrap();
    let tarball = format!("{}/tiny/-/tiny-1.0.0.tgz", served.url());
    served.put("/tiny/-/tiny-1.0.0.tgz", fs::read(source.join("tiny.tgz")).unwrap());
    served.put(
        "/tiny",
        format!(
            "{{\"name\": \"tiny\", \"dist-tags\": {{\"latest\": \"1.0.0\"}}, \
             \"versions\": {{\"1.0.0\": {{\"name\": \"tiny\", \
             \"version\": \"1.0.0\", \"dist\": {{\"tarball\": \"{tarball}\", \"integrity\": \"sha512-{hash}\"}}}}}}}}"
        ),
    );
}

/// M1: in a root of its own too.
#[test]
fn packages_are_made_installed_and_run() {
    each(&NODE, packages);
}

fn packages(desk: Desk) {
    let served = Served::start();
    dependency(&desk, &served);
    desk.write_home(".npmrc", &format!("registry={}/\nfund=false\n//127.0.0.1/:_authToken=SECRET\n", served.url()));
    desk.write("package.json", "{\"name\": \"app\", \"version\": \"1.0.0\", \"dependencies\": {\"tiny\": \"^1.0.0\"}}");
    desk.prepare("npm install --silent --no-audit && rm -r node_modules");
    desk.works(&[
        ("node calculates", "test \"$(node -p '6 * 7')\" = 42"),
        (
            "node knows who and where it is",
            "node -e 'const os = require(\"os\"); os.userInfo(); os.cpus(); \
                 if (os.homedir() !== process.env.HOME || os.tmpdir() !== process.env.TMPDIR) process.exit(1)'",
        ),
        (
            "a package that the user has already is installed from the lock file",
            "npm ci --offline --silent --no-audit && node -e 'if (require(\"tiny\") !== 7) process.exit(1)'",
        ),
        (
            "a package is begun",
            "mkdir part && cd part && npm init -y > /dev/null && echo 'module.exports = 1' > index.js && \
                 echo '#!/usr/bin/env node\nconsole.log(\"ran\")' > cli.js && npm pkg set bin.part=cli.js",
        ),
        (
            "a local package is installed",
            "npm install --offline --silent --no-audit ./part && \
                 node -e 'if (require(\"part\") !== 1) process.exit(1)'",
        ),
        ("its program runs", "test \"$(npx --offline part)\" = ran"),
        (
            "a script of the package runs",
            "npm pkg set scripts.hello='echo hello' scripts.test='node -e 0' && npm run -s hello | \
                 grep -q hello && npm test -s",
        ),
        ("what is installed is listed", "npm ls | grep -q tiny"),
        (
            "a server answers its own client",
            "node -e 'const h = require(\"http\"); \
                 const s = h.createServer((q, r) => r.end(\"x\")).listen(0, () => h.get({port: \
                 s.address().port}, r => r.resume().on(\"end\", () => s.close())))'",
        ),
        (
            "a worker thread and a child process run",
            "node -e 'const {Worker} = require(\"worker_threads\"); new Worker(\"0\", {eval: true}); \
                 require(\"child_process\").execFileSync(\"true\"); require(\"fs\").watch(\".\").close()'",
        ),
        (
            "the settings go along without the token",
            "npm config get registry | grep -q 127.0.0.1 && test \"$(npm config get fund)\" = false && \
                 ! grep -rq SECRET \"$HOME\" \"$npm_config_cache\"",
        ),
    ]);
}
