//! The types of the Kubernetes API that we write, and of each only the fields that we set. We read none of them.
//!
//! The crate with all of the API's types took longer to compile than everything else that the command line is made of. The golden
//! file and `kubernetes-validate` show that a cluster understands these.

use std::collections::BTreeMap;

use serde::Serialize;

/// An amount of bytes, in decimal digits.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(super) struct Quantity(pub(super) String);

#[derive(Debug, Default, Serialize)]
pub(super) struct ObjectMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LabelSelector {
    pub(super) match_labels: BTreeMap<String, String>,
}

/// `v1`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) api_version: &'static str,
    pub(super) metadata: ObjectMeta,
    pub(super) spec: PodSpec,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) active_deadline_seconds: Option<i64>,
    pub(super) automount_service_account_token: bool,
    pub(super) containers: Vec<Container>,
    pub(super) dns_config: PodDnsConfig,
    pub(super) dns_policy: &'static str,
    pub(super) enable_service_links: bool,
    #[serde(rename = "hostIPC")]
    pub(super) host_ipc: bool,
    pub(super) host_network: bool,
    #[serde(rename = "hostPID")]
    pub(super) host_pid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host_users: Option<bool>,
    pub(super) restart_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime_class_name: Option<String>,
    pub(super) security_context: PodSecurityContext,
    pub(super) share_process_namespace: bool,
    pub(super) termination_grace_period_seconds: i64,
    pub(super) volumes: Vec<Volume>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSecurityContext {
    pub(super) run_as_group: i64,
    pub(super) run_as_non_root: bool,
    pub(super) run_as_user: i64,
    pub(super) seccomp_profile: SeccompProfile,
}

#[derive(Debug, Serialize)]
pub(super) struct SeccompProfile {
    #[serde(rename = "type")]
    pub(super) type_: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodDnsConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nameservers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) options: Option<Vec<PodDnsConfigOption>>,
}

#[derive(Debug, Serialize)]
pub(super) struct PodDnsConfigOption {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Vec<EnvVar>,
    pub(super) image: String,
    pub(super) image_pull_policy: &'static str,
    pub(super) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<ResourceRequirements>,
    pub(super) security_context: SecurityContext,
    pub(super) volume_mounts: Vec<VolumeMount>,
    pub(super) working_dir: String,
}

#[derive(Debug, Serialize)]
pub(super) struct EnvVar {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ResourceRequirements {
    pub(super) limits: BTreeMap<String, Quantity>,
    pub(super) requests: BTreeMap<String, Quantity>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecurityContext {
    pub(super) allow_privilege_escalation: bool,
    pub(super) capabilities: Capabilities,
    pub(super) privileged: bool,
    pub(super) read_only_root_filesystem: bool,
    pub(super) run_as_non_root: bool,
    pub(super) seccomp_profile: SeccompProfile,
}

#[derive(Debug, Serialize)]
pub(super) struct Capabilities {
    pub(super) drop: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeMount {
    pub(super) mount_path: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recursive_read_only: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sub_path: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Volume {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) source: VolumeSource,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum VolumeSource {
    HostPath(HostPath),
    PersistentVolumeClaim(PersistentVolumeClaim),
    EmptyDir(EmptyDir),
    ConfigMap(ConfigMapVolume),
}

#[derive(Debug, Serialize)]
pub(super) struct HostPath {
    pub(super) path: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) type_: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PersistentVolumeClaim {
    pub(super) claim_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EmptyDir {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) medium: Option<&'static str>,
    pub(super) size_limit: Quantity,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigMapVolume {
    pub(super) default_mode: u32,
    pub(super) name: String,
}

/// `v1`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) struct ConfigMap {
    pub(super) api_version: &'static str,
    pub(super) data: BTreeMap<String, String>,
    pub(super) immutable: bool,
    pub(super) metadata: ObjectMeta,
}

/// `networking.k8s.io/v1`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) struct NetworkPolicy {
    pub(super) api_version: &'static str,
    pub(super) metadata: ObjectMeta,
    pub(super) spec: NetworkPolicySpec,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkPolicySpec {
    pub(super) egress: Vec<NetworkPolicyEgressRule>,
    /// Present and empty: nothing comes in.
    pub(super) ingress: [(); 0],
    pub(super) pod_selector: LabelSelector,
    pub(super) policy_types: [&'static str; 2],
}

#[derive(Debug, Serialize)]
pub(super) struct NetworkPolicyEgressRule {
    pub(super) ports: Vec<NetworkPolicyPort>,
    pub(super) to: Vec<NetworkPolicyPeer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkPolicyPeer {
    pub(super) ip_block: IpBlock,
}

#[derive(Debug, Serialize)]
pub(super) struct IpBlock {
    pub(super) cidr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) except: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
pub(super) struct NetworkPolicyPort {
    pub(super) port: u16,
    pub(super) protocol: &'static str,
}
