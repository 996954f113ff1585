//! What `--agent` asks for: the client's program, its model's hosts, its mode and what it signs in with.

use super::grants::Grant;
use super::reach::Asked;
use super::{Cx, Layer, Level, Reading, Trust, source_of};
use crate::agent::{AgentChoice, Client};
use crate::facts::PathFact;
use crate::host::HostTarget;
use crate::path::AbsPath;
use crate::policy::{Agent, Credentials, EnvName, Mode};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, Injection, Role, Sourced};
use crate::text::Diagnostic;

/// Brought along because the user named an agent.
const FLAG: Source = Source::Flag { name: "--agent" };

/// Where a model answers, taken apart.
pub(super) struct Address {
    pub(super) is_secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    path: String,
}

impl Address {
    /// `https://host[:port][/path]`; a user or a password in it makes it none.
    fn parse(text: &str) -> Option<Self> {
        let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return None,
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(colon) => (&authority[..bracket + colon], authority[bracket + colon + 1..].parse().ok()?),
            None => (authority, if is_secure { 443 } else { 80 }),
        };
        let is_plain = !host.is_empty() && !authority.contains('@') && !rest.contains(['?', '#']);
        is_plain.then(|| Self { is_secure, host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }

    pub(super) fn is_loopback(&self) -> bool {
        matches!(self.host.as_str(), "localhost" | "[::1]") || self.host.starts_with("127.")
    }
}

impl Cx<'_> {
    /// The layers' words about the agent, the last first.
    fn described(&self, reading: Reading, name: &str) -> Vec<(&Agent, &Layer)> {
        let mut found: Vec<(&Agent, &Layer)> =
            self.layers(reading).into_iter().filter_map(|l| Some((l.file.agent.as_ref()?.get(name)?, l))).collect();
        found.reverse();
        found
    }

    /// What it signs in with, as the files say it; nothing unless somebody does.
    fn credentials(&self, reading: Reading, name: &str) -> Sourced<Credentials> {
        let described = self.described(reading, name);
        let said = described.iter().find_map(|(agent, _)| agent.credentials.as_ref());
        let default = Source::Default { reason: "nothing of the user's is taken along" };
        said.map_or(Sourced { value: Credentials::None, source: default }, |said| Sourced {
            value: said.value,
            source: source_of(said),
        })
    }

    /// Another address for the model, by the caller's own variable.
    fn address(&self, client: Client) -> Option<Address> {
        let value = self.facts.environment.get(client.provider().base_url.as_bytes())?;
        Address::parse(std::str::from_utf8(value).ok()?)
    }

    /// The hosts of the agent's model, and the credential that is added on the way there.
    pub(super) fn reach_model(&mut self, asked: &mut Asked, reading: Reading) -> Result<(), Diagnostic> {
        let Some(name) = &self.inputs.request.agent else { return Ok(()) };
        let Some(client) = Client::named(name) else { return self.must_be_described(name) };
        let (provider, address) = (client.provider(), self.address(client));
        asked.add_group(provider.group, &FLAG);
        if let Some(address) = &address {
            asked.add_address(address, &FLAG);
        }
        let credentials = self.credentials(reading, name);
        if credentials.value != Credentials::Inject {
            return Ok(());
        }
        // Only what TLS carries on has a way for a credential.
        let host = match &address {
            Some(address) if address.is_secure && address.port == 443 => address.host.as_str(),
            Some(_) => return Ok(()),
            None => provider.host,
        };
        let (Ok(target), Some(variable)) = (HostTarget::new(host, 443), EnvName::new(provider.keys[0])) else {
            return Ok(());
        };
        let (header, prefix) = (provider.header.to_owned(), provider.prefix.to_owned());
        asked.add_injection(Injection { host: target.name().to_owned(), header, variable, prefix }, credentials.source);
        Ok(())
    }

    /// Variables that pass with the agent.
    pub(super) fn agent_variables(&self, reading: Reading) -> Vec<Sourced<EnvName>> {
        let Some(name) = &self.inputs.request.agent else { return Vec::new() };
        let Some(client) = Client::named(name) else { return Vec::new() };
        let (provider, credentials) = (client.provider(), self.credentials(reading, name));
        let base = self.address(client).filter(|_| credentials.value != Credentials::Inject);
        let keys = if credentials.value == Credentials::Copy { provider.keys } else { &[] };
        let named = keys.iter().map(|key| (*key, credentials.source.clone()));
        let named = named.chain(base.map(|_| (provider.base_url, FLAG)));
        named.filter_map(|(name, source)| Some(Sourced { value: EnvName::new(name)?, source })).collect()
    }

    /// What must be readable so that the agent's program runs.
    pub(super) fn agent_program(&mut self, grants: &mut Vec<Grant>, reading: Reading, root: &AbsPath) {
        let Some(name) = self.inputs.request.agent.clone() else { return };
        let word = self.command(reading, &name).first().cloned().unwrap_or_default();
        self.agent_history(grants, &name, root);
        let Some(program) = self.on_path(word.as_bytes()) else { return };
        let mut places = vec![(package(&program), program.clone())];
        // A script that starts what npm installed beside it.
        if let Some(beside) = program.parent().map(|dir| dir.child(b"node_modules"))
            && self.look.path(&beside) == PathFact::Directory
        {
            places.push((beside, program.clone()));
        }
        if is_script(&program)
            && let Some(node) = self.on_path(b"node")
        {
            places.push((prefix(&node), node));
        }
        for (place, file) in places {
            let homes = self.facts.all_homes();
            let is_broad = homes.iter().chain([root]).any(|inner| inner.is_within(&place)) || place.is_root();
            let place = if is_broad { file } else { place };
            grants.push(Grant::known(Effect::Read(Role::Tooling), place, FLAG));
        }
    }

    /// What the agent remembers of this project from session to session.
    fn agent_history(&mut self, grants: &mut Vec<Grant>, name: &str, root: &AbsPath) {
        let Some(client) = Client::named(name) else { return };
        let Some(caches) = self.facts.project_cache(root) else { return };
        let place = self.real(caches.join("agents").join(client.word()));
        grants.push(Grant::known(Effect::Write(Role::Cache), place, FLAG));
    }

    /// Where a program really is: by a path, or in the caller's PATH.
    fn on_path(&mut self, word: &[u8]) -> Option<AbsPath> {
        if word.contains(&b'/') {
            let cwd = self.facts.cwd.clone();
            return self.real_file(&cwd, word);
        }
        let path = self.facts.environment.get(b"PATH".as_slice())?.clone();
        let dirs = path.split(|b| *b == b':').filter(|dir| dir.first() == Some(&b'/'));
        dirs.into_iter().find_map(|dir| self.real_file(&AbsPath::root(), &[dir, b"/", word].concat()))
    }

    fn real_file(&mut self, from: &AbsPath, raw: &[u8]) -> Option<AbsPath> {
        self.follow(from, raw).ok().filter(|found| found.fact == PathFact::File).map(|found| found.path)
    }

    /// The command line that starts it. What an untrusted project writes there counts for nothing.
    fn command(&self, reading: Reading, name: &str) -> Vec<String> {
        let described = self.described(reading, name);
        let is_trusted = |layer: &Layer| layer.level != Level::Project(Trust::Untrusted);
        let said =
            described.iter().filter(|(_, layer)| is_trusted(layer)).find_map(|(agent, _)| agent.command.as_ref());
        said.map_or_else(|| vec![name.to_owned()], |said| said.value.clone())
    }

    /// What was chosen, once everything else is known.
    pub(super) fn agent_choice(&mut self, grants: &[Grant], asked: &Asked) -> Option<AgentChoice> {
        let name = self.inputs.request.agent.clone()?;
        let reading = Reading::WithProject;
        let command = self.command(reading, &name);
        self.omit_untrusted_agent(&name);
        let mode = self.mode(&name);
        let credentials = self.credentials(self.trusting(), &name);
        let program = self.on_path(command.first().map_or(b"".as_slice(), |word| word.as_bytes()));
        let client = Client::named(&name);
        let container = self.container_choice(&name, grants);
        let reads = grants
            .iter()
            .filter(|g| g.source == FLAG && g.effect == Effect::Read(Role::Tooling))
            .filter_map(|g| g.pattern.as_path().cloned());
        let mut choice = AgentChoice {
            reads: reads.filter(|path| !is_system(path)).collect(),
            base_url: None,
            name,
            client,
            command,
            mode,
            credentials,
            program,
            container,
        };
        choice.base_url = client.and_then(|client| self.base_url(client, &choice, asked));
        Some(choice)
    }

    /// With a credential added on the way, plain HTTP is spoken to the way out.
    fn base_url(&self, client: Client, choice: &AgentChoice, asked: &Asked) -> Option<String> {
        let (provider, address) = (client.provider(), self.address(client));
        let is_added = |host: &str| asked.adds_to(host, provider.header);
        match (choice.credentials.value, address) {
            (Credentials::Inject, Some(a)) if is_added(&a.host) => Some(format!("http://{}{}", a.host, a.path)),
            (Credentials::Inject, None) if is_added(provider.host) => {
                Some(format!("http://{}{}", provider.host, provider.path))
            }
            (_, Some(_)) => {
                let value = self.facts.environment.get(provider.base_url.as_bytes())?;
                Some(std::str::from_utf8(value).ok()?.to_owned())
            }
            (_, None) => None,
        }
    }

    fn trusting(&self) -> Reading {
        if self.has_untrusted() { Reading::WithoutUntrusted } else { Reading::WithProject }
    }

    /// An untrusted project may ask for the stricter mode only.
    fn mode(&self, name: &str) -> Sourced<Mode> {
        let default = Source::Default { reason: "edits pass, commands that change something are asked about" };
        let pick = |reading| {
            let described = self.described(reading, name);
            let said = described.iter().find_map(|(agent, _)| agent.mode.as_ref());
            said.map_or(Sourced { value: Mode::AcceptEdits, source: default.clone() }, |said| Sourced {
                value: said.value,
                source: source_of(said),
            })
        };
        let (all, trusted) = (pick(Reading::WithProject), pick(self.trusting()));
        if all.value <= trusted.value { all } else { trusted }
    }

    fn omit_untrusted_agent(&mut self, name: &str) {
        let mut dropped = Vec::new();
        for (agent, layer) in self.described(Reading::WithProject, name) {
            if layer.level != Level::Project(Trust::Untrusted) {
                continue;
            }
            let auto = agent.mode.as_ref().filter(|mode| mode.value == Mode::Auto);
            let wants = agent.credentials.as_ref().filter(|said| said.value != Credentials::None);
            dropped.extend(agent.command.as_ref().map(|said| ("command", source_of(said))));
            dropped.extend(auto.map(|said| ("mode = \"auto\"", source_of(said))));
            dropped.extend(wants.map(|said| ("credentials", source_of(said))));
        }
        for (what, source) in dropped {
            self.omit(format!("agent.{name} {what}"), source, Dropped::Untrusted);
        }
    }
}

/// Everything that belongs to a program: what npm installed beside it, or the file alone.
fn package(program: &AbsPath) -> AbsPath {
    let mut above: Vec<AbsPath> = program.ancestors().collect();
    above.reverse();
    // What Homebrew installs is linked to other things of its own.
    let is_whole = |dir: &AbsPath| matches!(dir.file_name(), Some(b"node_modules" | b".linuxbrew"));
    let modules = above.into_iter().find(is_whole);
    modules.unwrap_or_else(|| program.clone())
}

/// Where Node is installed: its libraries lie beside its `bin`.
fn prefix(node: &AbsPath) -> AbsPath {
    if package(node) != *node {
        return package(node);
    }
    let bin = node.parent().filter(|dir| dir.file_name() == Some(b"bin"));
    bin.and_then(|bin| bin.parent()).unwrap_or_else(|| node.clone())
}

fn is_script(program: &AbsPath) -> bool {
    let name = program.file_name().unwrap_or_default();
    [b".js".as_slice(), b".mjs", b".cjs"].iter().any(|ending| name.ends_with(ending))
}

/// What every session can read anyway.
fn is_system(path: &AbsPath) -> bool {
    let rows = crate::curated::system::SYSTEM.iter();
    rows.filter_map(|row| AbsPath::lexical(row.pattern.as_bytes()).ok()).any(|row| path.is_within(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("https://gw.example.com", Some((true, "gw.example.com", 443, ""))),
            ("https://gw.example.com:8443/a/", Some((true, "gw.example.com", 8443, "/a"))),
            ("http://127.0.0.1:4000/v1", Some((false, "127.0.0.1", 4000, "/v1"))),
            ("http://[::1]:4000", Some((false, "[::1]", 4000, ""))),
            ("http://[::1]", Some((false, "[::1]", 80, ""))),
            ("https://u:p@h", None),
            ("https://h:x", None),
            ("https://h/?k=secret", None),
            ("ftp://h", None),
            ("https://", None),
        ] {
            let found = Address::parse(text);
            let found = found.as_ref().map(|a| (a.is_secure, a.host.as_str(), a.port, a.path.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn packages() {
        let abs = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        for (program, expected) in [
            ("/h/.npm-global/lib/node_modules/@openai/codex/bin/codex.js", "/h/.npm-global/lib/node_modules"),
            ("/h/g/node_modules/.pnpm/x/node_modules/y/z.js", "/h/g/node_modules"),
            ("/home/linuxbrew/.linuxbrew/Cellar/claude/1/bin/claude", "/home/linuxbrew/.linuxbrew"),
            ("/h/.local/share/claude/versions/2.1.325", "/h/.local/share/claude/versions/2.1.325"),
        ] {
            assert_eq!(package(&abs(program)), abs(expected));
        }
        assert_eq!(prefix(&abs("/h/.nvm/versions/node/v22/bin/node")), abs("/h/.nvm/versions/node/v22"));
        assert_eq!(prefix(&abs("/h/node")), abs("/h/node"));
        assert_eq!(
            prefix(&abs("/home/linuxbrew/.linuxbrew/Cellar/node/1/bin/node")),
            abs("/home/linuxbrew/.linuxbrew")
        );
    }
}
