//! A little internet: a network namespace that plays the host, and one beside it that plays everybody else.
//!
//! The servers have addresses that look public, since the fence refuses any other. Names are answered by a server there.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence_testkit::{World, report_skip};

const NOBODY: u32 = 65534;
/// Longer than any table takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    Ordinary,
}

/// Hosts, a machine that may reach some of them, and a project on it.
pub(crate) struct Internet {
    world: World,
    who: Who,
    /// The shell that holds the namespaces. It and the servers end with its standard input.
    host: Child,
    /// Who makes the fence, where it is not ours, and how it is found.
    engine: Option<&'static str>,
    variables: Vec<(String, String)>,
}

/// What the project's policy says. The names in it lead where the servers' table says.
const POLICY: &str = r#"version = 1
[network]
allow = [
    "site.example.com", "site.example.com:7", "site.example.com:19", "site.example.com:25", "site.example.com:3306",
    "site.example.com:2525", "site.example.com:8080", "site.example.com:8081", "site.example.com:8443", "github.com",
    "git.example.com", "rust.example.com", "js.example.com", "py.example.com", "go.example.com",
    "inner.example.com", "meta.example.com", "loop.example.com", "mapped.example.com", "half.example.com",
    "rebind.example.com", "late.example.com", "long.example.com", "*.wild.example.org:8443", "*.wild.example.org",
    "self.example.com:8082", "routed.example.com:8082", "site.example.com:81", "gone.example.com", "nowhere.example.com",
    "silent.example.com", "missing.example.invalid",
]
private = ["self.example.com:8082"]
host_ports = [5432]
"#;

/// Builds the namespaces, in a shell that is in the first of them already. The second is that of the servers.
const BUILD: &str = r#"
exec 3<&0
ip link set lo up
unshare -n /usr/bin/python3 "$1/servers.py" internet "$1" <&3 >"$1/ready-internet" &
internet=$!
echo $internet > "$1/internet.pid"
tries=0
while [ "$(readlink /proc/$internet/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do
    tries=$((tries + 1)); [ $tries -lt 6000 ]; sleep 0.01
done
there() { nsenter -t $internet -n ip "$@"; }
ip link add v0 type veth peer name v1
ip link set v1 netns $internet
ip addr add 93.184.216.1/24 dev v0
ip addr add 2606:2800:220:1::1/64 dev v0 nodad
ip link set v0 up
# Somebody who is there and never answers: nobody has this number on the wire, and nobody is asked whose it is.
ip -6 neigh add 2606:2800:220:1::dead lladdr 02:00:00:00:de:ad dev v0 nud permanent
there link set lo up
there addr add 93.184.216.34/24 dev v1
there addr add 2606:2800:220:1::34/64 dev v1 nodad
# Places that no name may lead to.
there addr add 10.1.2.3/32 dev v1
there addr add 169.254.169.254/32 dev v1
there link set v1 up
ip route add 10.1.2.3/32 dev v0
ip route add 169.254.169.254/32 dev v0
ip route add local 93.184.217.0/24 dev lo
ip route add unreachable 93.184.219.0/24
# Everybody may ask whether somebody is there.
echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range
printf '127.0.0.1 localhost\n::1 localhost\n93.184.216.34 listed.example.com\n' > "$1/hosts"
printf 'nameserver 93.184.216.34\n' > "$1/resolv.conf"
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/resolv.conf" /etc/resolv.conf
/usr/bin/python3 "$1/servers.py" host "$1" <&3 >"$1/ready-host" &
for role in internet host; do
    tries=0
    until grep -q ready "$1/ready-$role"; do tries=$((tries + 1)); [ $tries -lt 6000 ]; sleep 0.01; done
done
echo ready
wait
"#;

/// An authority of the servers' own, and a certificate for every name of theirs.
const CERTIFICATES: &str = r#"
cd "$1"
new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "$@" 2>/dev/null; }
new -subj "/CN=little internet" -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign
new -subj "/CN=site.example.com" -keyout server.key -out server.pem -CA ca.pem -CAkey ca.key \
    -addext basicConstraints=critical,CA:FALSE \
    -addext "subjectAltName=DNS:*.example.com,DNS:*.example.net,DNS:*.wild.example.org,DNS:github.com,IP:93.184.216.34"
cp ca.pem project/ca.pem
"#;

/// Runs a case for each user that there is.
pub(crate) fn each(case: impl Fn(Internet)) {
    for who in [Who::Root, Who::Ordinary] {
        with(who, &case);
    }
}

/// Runs a case for one user.
pub(crate) fn with(who: Who, case: impl Fn(Internet)) {
    if rustix::process::geteuid().is_root() {
        case(Internet::new(who));
    } else {
        report_skip("the little internet: only root can build it");
    }
}

impl Internet {
    fn new(who: Who) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        world.write("servers.py", include_bytes!("servers.py"));
        world.write("project/ringfence.toml", POLICY);
        world.mkdir("www");
        let made = bash(CERTIFICATES).arg(world.path("")).output().unwrap();
        assert!(made.status.success(), "certificates: {}", shown(&made));
        let mut build = Command::new("unshare");
        build.args(["--net", "--mount", "--propagation", "private", "bash", "-euc", BUILD, "build"]);
        build.arg(world.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut host = build.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let internet = Self { world, who, host, engine: None, variables: Vec::new() };
        assert_eq!(line, "ready\n", "the namespaces and servers stand");
        internet.hand_over();
        let trusted = internet.fence(&["trust"]).output().unwrap();
        assert!(trusted.status.success(), "{}", shown(&trusted));
        internet
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.world.path(path)
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.world.write(Path::new("project").join(path), text);
        self.hand_over();
    }

    /// A script that runs as root, with the servers' files around it, before anything is tried.
    #[track_caller]
    pub(crate) fn publish(&self, script: &str) {
        let output = bash(script).current_dir(self.path("www")).output().unwrap();
        assert!(output.status.success(), "{script}\n{}", shown(&output));
    }

    fn hand_over(&self) {
        if self.who == Who::Ordinary {
            ["home", "project", "run"].iter().for_each(|dir| give_away(&self.path(dir)));
        }
    }

    /// A command of the user on the host, in the project. It becomes the program itself: its number is the program's.
    pub(crate) fn outside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.host.id().to_string(), "--"]);
        if self.who == Who::Ordinary {
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        }
        command.args(["env", "-C"]).arg(self.path("project")).arg(program);
        command.env_clear().env("HOME", self.path("home")).env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/bin");
        command.env("LANG", "C.UTF-8").env("TERM", "xterm").stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A shell of root among the servers.
    pub(crate) fn among_servers(&self, script: &str) -> Command {
        let servers = fs::read_to_string(self.path("internet.pid")).unwrap();
        let mut command = Command::new("nsenter");
        command.args([
            "--net",
            "--target",
            servers.trim(),
            "--",
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "--",
        ]);
        command.args(["bash", "-euc", script, "servers"]).arg(self.path("")).stdin(Stdio::null());
        command
    }

    /// The program on the host.
    pub(crate) fn fence(&self, arguments: &[&str]) -> Command {
        let mut command = self.outside(self.world.binary());
        command.args(arguments);
        command
    }

    /// A shell inside.
    fn shell_inside(&self) -> Command {
        let mut command = self.fence(&["run"]);
        if let Some(engine) = self.engine {
            command.args(["--backend", engine]);
        }
        command.args(["--", "bash"]);
        command
    }

    /// The same with a fence that this engine makes, which is found by these variables.
    pub(crate) fn with_engine(mut self, engine: &'static str, variables: Vec<(String, String)>) -> Self {
        (self.engine, self.variables) = (Some(engine), variables);
        self
    }

    /// All of these work inside, in one session. Each is a sentence and a script.
    #[track_caller]
    pub(crate) fn works(&self, actions: &[(&str, &str)]) -> String {
        let said = self.try_each(self.shell_inside(), actions);
        let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("FAILS")).collect();
        assert!(failed.is_empty(), "as {:?}, these fail: {failed:#?}\n{said}", self.who);
        said
    }

    /// None of these works inside, and each fails at once, without the patience that it has; on the host all of them do. Says what was
    /// said inside.
    #[track_caller]
    pub(crate) fn fail_inside_only(&self, attacks: &[(&str, &str)]) -> String {
        let said = self.try_each(self.outside("bash"), attacks);
        let bad: Vec<&str> = said.lines().filter(|line| line.starts_with("FAILS")).collect();
        assert!(
            bad.is_empty(),
            "as {:?}, these show nothing, since they fail on the host too: {bad:#?}\n{said}",
            self.who
        );
        let before = self.seen();
        let said = self.try_each(self.shell_inside(), attacks);
        let bad: Vec<&str> =
            said.lines().filter(|line| line.starts_with("works: ") || line.starts_with("FAILS SLOWLY")).collect();
        assert!(bad.is_empty(), "as {:?}, these work or take long: {bad:#?}\n{said}", self.who);
        let arrived = self.seen_since(&before);
        assert!(!arrived.contains("evil"), "as {:?}, something arrived: {arrived}\n{said}", self.who);
        said
    }

    /// Tries each of these in a shell, and says how each went.
    #[track_caller]
    pub(crate) fn try_each(&self, mut shell: Command, actions: &[(&str, &str)]) -> String {
        shell.args(["-c", EACH_ACTION, "actions"]);
        shell.args(actions.iter().flat_map(|(sentence, script)| [sentence, script]));
        let output = ended(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = shown(&output);
        let tried = said.lines().filter(|line| line.starts_with("works: ") || line.starts_with("FAILS")).count();
        assert_eq!(tried, actions.len(), "as {:?}: not every action was tried\n{said}", self.who);
        said
    }

    /// Everything that the servers saw so far: those of the internet and those of the host.
    pub(crate) fn seen(&self) -> [String; 2] {
        ["seen-internet", "seen-host"].map(|file| fs::read_to_string(self.path(file)).unwrap())
    }

    /// What they saw since then.
    pub(crate) fn seen_since(&self, before: &[String; 2]) -> String {
        self.seen().iter().zip(before).map(|(now, before)| &now[before.len()..]).collect()
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        drop(self.host.stdin.take());
        // The servers end when nobody holds that pipe any more, and the shell after them.
        let _ = self.host.wait();
    }
}

/// Takes sentences and scripts in turn, and says of each how it went and whether it took long.
const EACH_ACTION: &str = r#"
export SSL_CERT_FILE=$PWD/ca.pem
while [ $# -gt 0 ]; do
    begun=${EPOCHREALTIME/./}
    if timeout 60 bash -euc "$2" >/tmp/said-$$ 2>&1 </dev/null; then
        echo "works: $1"
    else
        code=$?
        word=FAILS; [ $((${EPOCHREALTIME/./} - begun)) -lt 10000000 ] || word='FAILS SLOWLY'
        echo "$word with $code: $1"
        { printf '%s\n' "$2"; cat /tmp/said-$$; } | sed 's/^/    /'
    fi
    rm -f /tmp/said-$$
    shift 2
done
"#;

/// Waits for the end of a process, but not for ever.
#[track_caller]
pub(crate) fn ended(mut child: Child) -> Output {
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            let _ = child.wait();
            panic!("it does not end: {}", shown_bytes(&stderr.join().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

pub(crate) fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euc", script, "script"]).stdin(Stdio::null());
    command
}

fn give_away(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    // A file with several names is one of the toolchain's, which stays whose it is.
    if metadata.is_dir() || std::os::unix::fs::MetadataExt::nlink(&metadata) == 1 {
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

pub(crate) fn shown(output: &Output) -> String {
    shown_bytes(&output.stdout) + &shown_bytes(&output.stderr)
}

fn shown_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}
