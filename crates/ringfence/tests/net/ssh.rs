//! K9: git and its kin over SSH, with the user's keys in an agent outside: hosts that the policy names, and no others.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::internet::{Internet, Who, each, ended, shown, with};

/// A server of its own user, of its own key, for whoever has the user's key. Nothing of the host is changed: it sees other
/// accounts and another `/run`.
const SERVER: &str = r#"
dir=$1/sshd
mkdir "$dir" "$dir/git"
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
{ grep -v '^git:' /etc/passwd; echo "git:*:47115:47115::$dir/git:/bin/sh"; } > "$dir/passwd"
cp "$1/home/.ssh/id_ed25519.pub" "$dir/authorized_keys"
cat > "$dir/config" <<END
Port 22
HostKey $dir/key
AuthorizedKeysFile $dir/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
Subsystem sftp internal-sftp
END
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q "$dir/tree" && echo seven > "$dir/tree/file" && git -C "$dir/tree" add file && git -C "$dir/tree" commit -qm first
git clone -q --bare "$dir/tree" "$dir/git/repo.git"
chown -R 47115:47115 "$dir/git"
mount --bind "$dir/passwd" /etc/passwd
mount -t tmpfs tmpfs /run
mkdir /run/sshd
# Those that the user knows, one of them as a hash.
{
    echo "git.example.com $(cut -d' ' -f1,2 "$dir/key.pub")"
    echo "secret-machine.corp.example $(cut -d' ' -f1,2 "$dir/key.pub")"
} > "$1/home/.ssh/known_hosts"
ssh-keygen -q -H -f "$1/home/.ssh/known_hosts" 2>/dev/null
rm "$1/home/.ssh/known_hosts.old"
echo "secret-place.corp.example,wild.example.com $(cut -d' ' -f1,2 "$dir/key.pub")" >> "$1/home/.ssh/known_hosts"
exec /usr/sbin/sshd -D -e -f "$dir/config" 2> "$dir/log"
"#;

/// The user's key, known to an agent.
const KEYS: &str = r#"
mkdir -p ../home/.ssh
ssh-keygen -q -t ed25519 -N '' -C user -f ../home/.ssh/id_ed25519
"#;

const POLICY: &str = r#"version = 1
[network]
allow = ["git.example.com:22", "unknown.example.com:22"]
sockets = ["$SSH_AUTH_SOCK"]
"#;

/// A server, and an agent with the user's key.
struct Ssh<'a> {
    internet: &'a Internet,
    server: Child,
    agent: Child,
}

impl<'a> Ssh<'a> {
    fn start(internet: &'a Internet) -> Self {
        let made = internet.outside("bash").args(["-euc", KEYS]).output().unwrap();
        assert!(made.status.success(), "{}", shown(&made));
        let server = internet.among_servers(SERVER).stdout(Stdio::null()).spawn().unwrap();
        let mut agent = internet.outside("ssh-agent");
        agent.arg("-D").arg("-a").arg(internet.path("run/agent")).stdout(Stdio::null());
        let ssh = Self { internet, server, agent: agent.spawn().unwrap() };
        let deadline = Instant::now() + Duration::from_secs(60);
        let wait = "ssh-add -q ../home/.ssh/id_ed25519 && (exec 3<>/dev/tcp/93.184.216.34/22 && grep -q SSH <&3)";
        while !ssh.with_agent(internet.outside("bash")).args(["-c", wait]).output().unwrap().status.success() {
            assert!(Instant::now() < deadline, "neither the server nor the agent is there");
            std::thread::sleep(Duration::from_millis(20));
        }
        internet.write("ssh.toml", POLICY);
        ssh
    }

    fn with_agent(&self, mut command: Command) -> Command {
        command.env("SSH_AUTH_SOCK", self.internet.path("run/agent"));
        command
    }

    fn inside(&self, policy: &str, actions: &[(&str, &str)]) -> String {
        let fence = self.internet.fence(&["run", "--policy", policy, "--", "bash"]);
        self.internet.try_each(self.with_agent(fence), actions)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.internet.path("sshd/log")).unwrap_or_default()
    }
}

impl Drop for Ssh<'_> {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.agent] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const IDENTITY: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";

#[test]
fn k9_git_over_ssh_with_the_keys_of_an_agent_outside() {
    each(|internet| {
        let ssh = Ssh::start(&internet);
        let push = format!(
            "{IDENTITY}; cd a && echo eight >> file && git commit -qam second && git push -q origin HEAD:refs/heads/pushed && \
             git ls-remote -q origin | grep refs/heads/pushed"
        );
        let said = ssh.inside(
            "ssh.toml",
            &[
                ("the user's key is not there", "! grep -rs 'PRIVATE KEY' ~/.ssh $HOME/.ssh ../home/.ssh"),
                ("an agent has it", "ssh-add -l | grep -w user"),
                ("clone", "git clone -q ssh://git@git.example.com/~/repo.git a && grep seven a/file"),
                ("push", &push),
                ("the short form", "git clone -q git@git.example.com:repo.git b && git -C b log -1 origin/pushed"),
                ("a command", "test \"$(ssh git@git.example.com echo seven)\" = seven"),
                ("a file", "scp -q git@git.example.com:repo.git/HEAD head && grep ref: head"),
                ("nobody else is known", "! ssh-keygen -F secret-machine.corp.example && ! grep secret ~/.ssh/known_hosts"),
                (
                    "a host that nobody knows is not trusted",
                    "! ssh -o BatchMode=yes git@unknown.example.com true 2>said && grep 'Host key verification failed' said",
                ),
                (
                    "unless somebody says so, and then it is remembered",
                    "ssh -o StrictHostKeyChecking=accept-new git@unknown.example.com true && ssh git@unknown.example.com true",
                ),
            ],
        );
        assert!(!said.contains("FAILS"), "{said}\n{}", ssh.log());
        assert!(!said.contains("stopped: "), "{said}");
    });
}

#[test]
fn k9_ssh_reaches_no_other_host() {
    each(|internet| {
        let ssh = Ssh::start(&internet);
        let to = |host: &str| {
            format!(
                "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=30 git@{host} true"
            )
        };
        let git = "GIT_SSH_COMMAND='ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null' git clone -q \
                   ssh://git@evil.example.net/~/repo.git /tmp/evil-$$ && rm -rf /tmp/evil-$$";
        let attacks = [
            ("another name", to("evil.example.net")),
            ("an address", to("93.184.216.34")),
            ("an address of the sixth version", to("2606:2800:220:1::34")),
            ("git, another name", git.to_owned()),
        ];
        let attacks: Vec<(&str, &str)> = attacks.iter().map(|(what, script)| (*what, script.as_str())).collect();
        let outside = internet.try_each(ssh.with_agent(internet.outside("bash")), &attacks);
        assert!(
            !outside.contains("FAILS"),
            "these show nothing, since they fail on the host too: {outside}\n{}",
            ssh.log()
        );
        let said = ssh.inside("ssh.toml", &attacks);
        assert!(!said.contains("works: ") && !said.contains("SLOWLY"), "{said}");
        assert!(
            said.contains("stopped: name evil.example.net") && said.contains("stopped: tcp 93.184.216.34:22"),
            "{said}"
        );
    });
}

/// An agent signs for whoever asks it. No session has it unless a policy says so.
#[test]
fn k9_no_agent_is_there_unless_it_is_named() {
    with(Who::Ordinary, |internet| {
        let ssh = Ssh::start(&internet);
        internet.write("plain.toml", "version = 1\n[network]\nallow = [\"git.example.com:22\"]\n");
        let place = internet.path("run/agent").display().to_string();
        let ask = format!("SSH_AUTH_SOCK={place} ssh-add -l");
        let said = ssh.inside(
            "plain.toml",
            &[
                ("no variable", "test -z \"${SSH_AUTH_SOCK-}\""),
                ("nobody at its place", &format!("! {ask}")),
                (
                    "nobody logs in",
                    "! ssh -o BatchMode=yes git@git.example.com true 2>said && grep 'Permission denied' said",
                ),
            ],
        );
        assert!(!said.contains("FAILS"), "{said}");
    });
}

/// Programs that ask for an account by its number find one, and in it the private home.
#[test]
fn k9_whoever_works_inside_has_an_account() {
    each(|internet| {
        let script = "test \"$(getent passwd $(id -u) | cut -d: -f6)\" = \"$HOME\" && test \"$(eval echo ~$(id -un))\" = \"$HOME\" && whoami";
        let mut command = internet.fence(&["run", "--", "bash", "-euc", script]);
        let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(output.status.success(), "{}", shown(&output));
    });
}
