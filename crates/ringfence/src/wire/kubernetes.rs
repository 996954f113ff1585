//! A pod's description as the objects of a cluster, with their types. Nothing is decided here.

mod types;

use std::collections::BTreeMap;

use ringfence_plan::{
    EMPTY_FILE, MountAccess, NetworkRule, NodeKind, PodMount, PodPlan, PodUsers, PodVolume, PodVolumeKind, Pull,
    ReadOnlyGoes,
};
use serde::Serialize;
use serde_json::Value;

use types::{
    Capabilities, ConfigMap, ConfigMapVolume, Container, EmptyDir, EnvVar, HostPath, IpBlock, LabelSelector,
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec, ObjectMeta,
    PersistentVolumeClaim, Pod, PodDnsConfig, PodDnsConfigOption, PodSecurityContext, PodSpec, Quantity,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount, VolumeSource,
};

/// What a pod is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodKind {
    /// Nothing.
    Pod,
    /// A Sandbox of agent-sandbox.
    Sandbox,
}

/// By this label policies find the pod. Nobody inside can change it: there is no token to do it with.
const LABEL: &str = "ringfence/pod";

/// How long a command may take to end when it is asked to, as everywhere.
const GRACE: i64 = 2;

/// Every object of a description, in the order in which they are to be made: the walls before what they surround.
pub(crate) fn objects(plan: &PodPlan, kind: PodKind) -> Result<Vec<Value>, serde_json::Error> {
    let mut objects = vec![serde_json::to_value(network_policy(plan))?];
    if !plan.network.names.is_empty() {
        objects.push(serde_json::to_value(cilium(plan))?);
    }
    if plan.volumes.iter().any(|volume| volume.kind == PodVolumeKind::EmptyFile) {
        objects.push(serde_json::to_value(empty_file(plan))?);
    }
    let metadata = ObjectMeta { labels: Some(labels(plan)), ..named(&plan.name) };
    objects.push(match kind {
        PodKind::Pod => serde_json::to_value(Pod { api_version: "v1", metadata, spec: pod_spec(plan) })?,
        PodKind::Sandbox => serde_json::to_value(sandbox(plan, metadata))?,
    });
    Ok(objects)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn labels(plan: &PodPlan) -> BTreeMap<String, String> {
    [(LABEL.to_owned(), plan.name.clone())].into()
}

fn pod_spec(plan: &PodPlan) -> PodSpec {
    let (dns_policy, dns_config) = dns(plan);
    PodSpec {
        active_deadline_seconds: plan.seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
        automount_service_account_token: false,
        containers: vec![container(plan)],
        dns_config,
        dns_policy,
        enable_service_links: false,
        host_ipc: false,
        host_network: false,
        host_pid: false,
        host_users: (plan.users == PodUsers::Own).then_some(false),
        restart_policy: "Never",
        runtime_class_name: plan.runtime_class.clone(),
        security_context: PodSecurityContext {
            run_as_group: i64::from(plan.user.1),
            run_as_non_root: true,
            run_as_user: i64::from(plan.user.0),
            seccomp_profile: RUNTIME_DEFAULT,
        },
        share_process_namespace: false,
        termination_grace_period_seconds: GRACE,
        volumes: plan.volumes.iter().map(|one| volume(one, &plan.name)).collect(),
    }
}

fn container(plan: &PodPlan) -> Container {
    let memory = |bytes: u64| BTreeMap::from([("memory".to_owned(), Quantity(bytes.to_string()))]);
    let variable = |(name, value): &(&str, String)| EnvVar { name: (*name).to_owned(), value: value.clone() };
    Container {
        args: (!plan.arguments.is_empty()).then(|| plan.arguments.clone()),
        env: plan.variables.iter().map(variable).collect(),
        image: plan.image.clone(),
        image_pull_policy: if plan.pull == Pull::Never { "Never" } else { "IfNotPresent" },
        name: "agent",
        resources: plan.memory.map(|bytes| ResourceRequirements { limits: memory(bytes), requests: memory(bytes) }),
        security_context: SecurityContext {
            allow_privilege_escalation: false,
            capabilities: Capabilities { drop: vec!["ALL"] },
            privileged: false,
            read_only_root_filesystem: true,
            run_as_non_root: true,
            seccomp_profile: RUNTIME_DEFAULT,
        },
        volume_mounts: plan.mounts.iter().map(|one| mount(one, plan.recursive)).collect(),
        working_dir: plan.workdir.clone(),
    }
}

const RUNTIME_DEFAULT: SeccompProfile = SeccompProfile { type_: "RuntimeDefault" };

fn mount(mount: &PodMount, recursive: ReadOnlyGoes) -> VolumeMount {
    let is_read_only = mount.access == MountAccess::ReadOnly;
    VolumeMount {
        mount_path: mount.path.clone(),
        name: mount.volume.clone(),
        read_only: is_read_only.then_some(true),
        recursive_read_only: (is_read_only && recursive == ReadOnlyGoes::AllTheWay).then_some("Enabled"),
        sub_path: mount.part.clone(),
    }
}

fn volume(volume: &PodVolume, pod: &str) -> Volume {
    let empty =
        |bytes: u64, medium| VolumeSource::EmptyDir(EmptyDir { medium, size_limit: Quantity(bytes.to_string()) });
    let source = match &volume.kind {
        PodVolumeKind::Node { path, kind } => {
            let type_ = match kind {
                NodeKind::Directory => Some("Directory"),
                NodeKind::File => Some("File"),
                // A device that is said to be one is made anew by some, and not mounted.
                NodeKind::Null => None,
            };
            VolumeSource::HostPath(HostPath { path: path.clone(), type_ })
        }
        PodVolumeKind::Claim(name) => {
            VolumeSource::PersistentVolumeClaim(PersistentVolumeClaim { claim_name: name.clone() })
        }
        PodVolumeKind::Disk(bytes) => empty(*bytes, None),
        PodVolumeKind::Memory(bytes) => empty(*bytes, Some("Memory")),
        // Owner may read it, and that is the node's root.
        PodVolumeKind::EmptyFile => {
            VolumeSource::ConfigMap(ConfigMapVolume { default_mode: 0o400, name: empty_name(pod) })
        }
    };
    Volume { name: volume.name.clone(), source }
}

/// Names are looked up where they are allowed at all, and as they are written.
fn dns(plan: &PodPlan) -> (&'static str, PodDnsConfig) {
    if plan.network.names.is_empty() {
        // Nobody answers there, at once.
        let nameservers = Some(vec!["127.0.0.1".to_owned()]);
        return ("None", PodDnsConfig { nameservers, options: None });
    }
    let option = PodDnsConfigOption { name: "ndots", value: "1" };
    ("ClusterFirst", PodDnsConfig { nameservers: None, options: Some(vec![option]) })
}

/// Nothing comes in; out goes what is listed by its address.
fn network_policy(plan: &PodPlan) -> NetworkPolicy {
    let rule = |rule: &NetworkRule| NetworkPolicyEgressRule {
        ports: rule.ports.iter().map(|port| NetworkPolicyPort { port: *port, protocol: "TCP" }).collect(),
        to: vec![NetworkPolicyPeer {
            ip_block: IpBlock {
                cidr: rule.network.clone(),
                except: (!rule.except.is_empty()).then(|| rule.except.clone()),
            },
        }],
    };
    NetworkPolicy {
        api_version: "networking.k8s.io/v1",
        metadata: named(&plan.name),
        spec: NetworkPolicySpec {
            egress: plan.network.addresses.iter().map(rule).collect(),
            ingress: [],
            pod_selector: LabelSelector { match_labels: labels(plan) },
            policy_types: ["Ingress", "Egress"],
        },
    }
}

fn empty_name(pod: &str) -> String {
    format!("{pod}-empty")
}

fn empty_file(plan: &PodPlan) -> ConfigMap {
    ConfigMap {
        api_version: "v1",
        data: [(EMPTY_FILE.to_owned(), String::new())].into(),
        immutable: true,
        metadata: named(&empty_name(&plan.name)),
    }
}

/// `agents.x-k8s.io/v1beta1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sandbox {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    spec: SandboxSpec,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SandboxSpec {
    pod_template: SandboxTemplate,
    operating_mode: &'static str,
    /// Nobody calls the agent by a name.
    service: bool,
}

#[derive(Debug, Serialize)]
struct SandboxTemplate {
    metadata: ObjectMeta,
    spec: PodSpec,
}

fn sandbox(plan: &PodPlan, metadata: ObjectMeta) -> Sandbox {
    let labelled = ObjectMeta { labels: Some(labels(plan)), ..ObjectMeta::default() };
    Sandbox {
        api_version: "agents.x-k8s.io/v1beta1",
        kind: "Sandbox",
        metadata,
        spec: SandboxSpec {
            pod_template: SandboxTemplate { metadata: labelled, spec: pod_spec(plan) },
            operating_mode: "Running",
            service: false,
        },
    }
}

/// `cilium.io/v2`: what is listed by name. It adds to the other policy, and takes nothing from it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CiliumNetworkPolicy {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    spec: CiliumRule,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CiliumRule {
    endpoint_selector: LabelSelector,
    egress: Vec<CiliumEgress>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CiliumEgress {
    #[serde(skip_serializing_if = "Option::is_none")]
    to_endpoints: Option<Vec<LabelSelector>>,
    #[serde(rename = "toFQDNs", skip_serializing_if = "Option::is_none")]
    to_names: Option<Vec<CiliumName>>,
    to_ports: Vec<CiliumPorts>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
enum CiliumName {
    MatchName(String),
    MatchPattern(String),
}

#[derive(Debug, Serialize)]
struct CiliumPorts {
    ports: Vec<CiliumPort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<CiliumLookups>,
}

#[derive(Debug, Serialize)]
struct CiliumPort {
    port: String,
    protocol: &'static str,
}

#[derive(Debug, Serialize)]
struct CiliumLookups {
    dns: Vec<CiliumName>,
}

/// Where a cluster's own server of names is, as Cilium's documentation has it.
const NAME_SERVER: [(&str, &str); 2] =
    [("k8s:io.kubernetes.pod.namespace", "kube-system"), ("k8s:k8s-app", "kube-dns")];

fn cilium(plan: &PodPlan) -> CiliumNetworkPolicy {
    let name = |name: &String| match name.starts_with('*') {
        true => CiliumName::MatchPattern(name.clone()),
        false => CiliumName::MatchName(name.clone()),
    };
    let port = |port: u16, protocol| CiliumPort { port: port.to_string(), protocol };
    let selector = |labels: BTreeMap<String, String>| LabelSelector { match_labels: labels };
    // Only listed names are looked up: any other would carry what is in it to whoever answers for it.
    let lookups = CiliumEgress {
        to_endpoints: Some(vec![selector(NAME_SERVER.map(|(key, value)| (key.into(), value.into())).into())]),
        to_names: None,
        to_ports: vec![CiliumPorts {
            ports: vec![port(53, "UDP"), port(53, "TCP")],
            rules: Some(CiliumLookups { dns: plan.network.names.iter().map(|(host, _)| name(host)).collect() }),
        }],
    };
    let hosts = plan.network.names.iter().map(|(host, ports)| CiliumEgress {
        to_endpoints: None,
        to_names: Some(vec![name(host)]),
        to_ports: vec![CiliumPorts { ports: ports.iter().map(|one| port(*one, "TCP")).collect(), rules: None }],
    });
    CiliumNetworkPolicy {
        api_version: "cilium.io/v2",
        kind: "CiliumNetworkPolicy",
        metadata: named(&plan.name),
        spec: CiliumRule {
            endpoint_selector: selector(labels(plan)),
            egress: std::iter::once(lookups).chain(hosts).collect(),
        },
    }
}

#[cfg(test)]
mod goldens;
