//! A pod's description as the objects of a cluster, with their types. Nothing is decided here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, HostPathVolumeSource,
    PersistentVolumeClaimVolumeSource, Pod, PodDNSConfig, PodDNSConfigOption, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use ringfence_plan::{
    EMPTY_FILE, MountAccess, NetworkRule, NodeKind, PodMount, PodPlan, PodUsers, PodVolume, PodVolumeKind, Pull,
    ReadOnlyGoes,
};
use serde::Serialize;
use serde_json::Value;

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
        PodKind::Pod => serde_json::to_value(Pod { metadata, spec: Some(pod_spec(plan)), status: None })?,
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
        automount_service_account_token: Some(false),
        containers: vec![container(plan)],
        dns_config: Some(dns_config),
        dns_policy: Some(dns_policy.to_owned()),
        enable_service_links: Some(false),
        host_ipc: Some(false),
        host_network: Some(false),
        host_pid: Some(false),
        host_users: (plan.users == PodUsers::Own).then_some(false),
        restart_policy: Some("Never".to_owned()),
        runtime_class_name: plan.runtime_class.clone(),
        security_context: Some(PodSecurityContext {
            run_as_group: Some(i64::from(plan.user.1)),
            run_as_non_root: Some(true),
            run_as_user: Some(i64::from(plan.user.0)),
            seccomp_profile: Some(runtime_default()),
            ..PodSecurityContext::default()
        }),
        share_process_namespace: Some(false),
        termination_grace_period_seconds: Some(GRACE),
        volumes: Some(plan.volumes.iter().map(|one| volume(one, &plan.name)).collect()),
        ..PodSpec::default()
    }
}

fn container(plan: &PodPlan) -> Container {
    let memory = |bytes: u64| [("memory".to_owned(), Quantity(bytes.to_string()))].into();
    let variable = |(name, value): &(&str, String)| EnvVar {
        name: (*name).to_owned(),
        value: Some(value.clone()),
        ..EnvVar::default()
    };
    Container {
        args: (!plan.arguments.is_empty()).then(|| plan.arguments.clone()),
        env: Some(plan.variables.iter().map(variable).collect()),
        image: Some(plan.image.clone()),
        image_pull_policy: Some(if plan.pull == Pull::Never { "Never" } else { "IfNotPresent" }.to_owned()),
        name: "agent".to_owned(),
        resources: plan.memory.map(|bytes| ResourceRequirements {
            limits: Some(memory(bytes)),
            requests: Some(memory(bytes)),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            privileged: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            seccomp_profile: Some(runtime_default()),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(plan.mounts.iter().map(|one| mount(one, plan.recursive)).collect()),
        working_dir: Some(plan.workdir.clone()),
        ..Container::default()
    }
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { localhost_profile: None, type_: "RuntimeDefault".to_owned() }
}

fn mount(mount: &PodMount, recursive: ReadOnlyGoes) -> VolumeMount {
    let is_read_only = mount.access == MountAccess::ReadOnly;
    VolumeMount {
        mount_path: mount.path.clone(),
        name: mount.volume.clone(),
        read_only: is_read_only.then_some(true),
        recursive_read_only: (is_read_only && recursive == ReadOnlyGoes::AllTheWay).then(|| "Enabled".to_owned()),
        sub_path: mount.part.clone(),
        ..VolumeMount::default()
    }
}

fn volume(volume: &PodVolume, pod: &str) -> Volume {
    let empty = |bytes: u64, medium: Option<&str>| {
        let size_limit = Some(Quantity(bytes.to_string()));
        Some(EmptyDirVolumeSource { medium: medium.map(str::to_owned), size_limit })
    };
    let mut made = Volume { name: volume.name.clone(), ..Volume::default() };
    match &volume.kind {
        PodVolumeKind::Node { path, kind } => {
            let type_ = match kind {
                NodeKind::Directory => Some("Directory".to_owned()),
                NodeKind::File => Some("File".to_owned()),
                // A device that is said to be one is made anew by some, and not mounted.
                NodeKind::Null => None,
            };
            made.host_path = Some(HostPathVolumeSource { path: path.clone(), type_ });
        }
        PodVolumeKind::Claim(name) => {
            let claim_name = name.clone();
            made.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None });
        }
        PodVolumeKind::Disk(bytes) => made.empty_dir = empty(*bytes, None),
        PodVolumeKind::Memory(bytes) => made.empty_dir = empty(*bytes, Some("Memory")),
        PodVolumeKind::EmptyFile => {
            let name = empty_name(pod);
            made.config_map = Some(ConfigMapVolumeSource {
                // Owner may read it, and that is the node's root.
                default_mode: Some(0o400),
                name,
                ..ConfigMapVolumeSource::default()
            });
        }
    }
    made
}

/// Names are looked up where they are allowed at all, and as they are written.
fn dns(plan: &PodPlan) -> (&'static str, PodDNSConfig) {
    if plan.network.names.is_empty() {
        // Nobody answers there, at once.
        let nameservers = Some(vec!["127.0.0.1".to_owned()]);
        return ("None", PodDNSConfig { nameservers, ..PodDNSConfig::default() });
    }
    let option = PodDNSConfigOption { name: Some("ndots".to_owned()), value: Some("1".to_owned()) };
    ("ClusterFirst", PodDNSConfig { options: Some(vec![option]), ..PodDNSConfig::default() })
}

/// Nothing comes in; out goes what is listed by its address.
fn network_policy(plan: &PodPlan) -> NetworkPolicy {
    let rule = |rule: &NetworkRule| NetworkPolicyEgressRule {
        ports: Some(rule.ports.iter().map(|port| tcp(*port)).collect()),
        to: Some(vec![NetworkPolicyPeer {
            ip_block: Some(IPBlock {
                cidr: rule.network.clone(),
                except: (!rule.except.is_empty()).then(|| rule.except.clone()),
            }),
            ..NetworkPolicyPeer::default()
        }]),
    };
    NetworkPolicy {
        metadata: named(&plan.name),
        spec: Some(NetworkPolicySpec {
            egress: Some(plan.network.addresses.iter().map(rule).collect()),
            ingress: Some(Vec::new()),
            pod_selector: Some(LabelSelector { match_labels: Some(labels(plan)), ..LabelSelector::default() }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        }),
    }
}

fn tcp(port: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        end_port: None,
        port: Some(IntOrString::Int(i32::from(port))),
        protocol: Some("TCP".to_owned()),
    }
}

fn empty_name(pod: &str) -> String {
    format!("{pod}-empty")
}

fn empty_file(plan: &PodPlan) -> ConfigMap {
    ConfigMap {
        data: Some([(EMPTY_FILE.to_owned(), String::new())].into()),
        immutable: Some(true),
        metadata: named(&empty_name(&plan.name)),
        binary_data: None,
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
    let selector =
        |labels: BTreeMap<String, String>| LabelSelector { match_labels: Some(labels), match_expressions: None };
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
