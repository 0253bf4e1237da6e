//! ADD in order, DEL in reverse.

use std::path::Path;

use minke_core::identity::PodKey;
use minke_core::runtime::{PortMapping, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::config::CniConfig;
use super::super::error::protocol_name;
use super::super::request::Attachment;
use super::conflist::{Chain, Plugin, binary};
use super::invoke::{CniError, Invocation, invoke};
use super::result;

/// What must be known to call DEL, kept on disk from before the first ADD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct CniAttachment {
    chain: Chain,
    /// The value of the `portMappings` capability.
    port_mappings: Vec<Value>,
    /// The last plugin's result; `None` until ADD is done.
    result: Option<Value>,
}

impl CniAttachment {
    pub(in super::super) fn new(chain: Chain, ports: &[PortMapping]) -> Self {
        let port_mappings = ports.iter().map(port_mapping).collect();
        Self { chain, port_mappings, result: None }
    }

    /// Name of the network.
    pub(in super::super) fn network(&self) -> &str {
        &self.chain.name
    }

    /// What a plugin reads: its part of the list, and what the runtime adds to it.
    fn input(&self, plugin: &Plugin, previous: Option<&Value>) -> Value {
        let mut input: Map<String, Value> = plugin.config.clone();
        input.remove("capabilities");
        input.insert("name".to_owned(), json!(self.chain.name));
        input.insert("cniVersion".to_owned(), json!(self.chain.version));
        if plugin.wants(PORT_MAPPINGS) && !self.port_mappings.is_empty() {
            input.insert("runtimeConfig".to_owned(), json!({ PORT_MAPPINGS: self.port_mappings }));
        }
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        Value::Object(input)
    }
}

const PORT_MAPPINGS: &str = "portMappings";

fn port_mapping(mapping: &PortMapping) -> Value {
    let mut value = json!({
        "hostPort": mapping.host_port,
        "containerPort": mapping.container_port,
        "protocol": protocol_name(mapping.protocol).to_ascii_lowercase(),
    });
    if let Some(ip) = mapping.host_ip {
        value["hostIP"] = json!(ip);
    }
    value
}

/// For which sandbox a chain is called.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Call<'a> {
    pub(in super::super) sandbox: &'a SandboxId,
    pub(in super::super) pod: &'a PodKey,
    /// `None` when the namespace is gone.
    pub(in super::super) netns: Option<&'a Path>,
    pub(in super::super) interface: &'a str,
    /// Where the binaries are; `None` when CNI has been switched off since ADD, which leaves the default places.
    pub(in super::super) config: Option<&'a CniConfig>,
}

impl Call<'_> {
    fn environment(&self, config: &CniConfig) -> Vec<(&'static str, String)> {
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
            self.pod.namespace, self.pod.name, self.sandbox, self.pod.uid
        );
        let directories: Vec<_> = config.bin_dirs.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        vec![
            ("CNI_CONTAINERID", self.sandbox.0.clone()),
            ("CNI_NETNS", self.netns.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()),
            ("CNI_IFNAME", self.interface.to_owned()),
            ("CNI_ARGS", arguments),
            ("CNI_PATH", directories.join(":")),
        ]
    }

    async fn run(&self, plugin: &Plugin, command: &'static str, input: &Value) -> Result<Vec<u8>, CniError> {
        let default = CniConfig::default();
        let config = self.config.unwrap_or(&default);
        let Some(path) = binary(config, &plugin.kind) else {
            let directories = config.bin_dirs.iter().map(|path| path.display().to_string()).collect();
            return Err(CniError::NotInstalled { plugin: plugin.kind.clone(), directories });
        };
        let invocation = Invocation {
            plugin: &plugin.kind,
            path: &path,
            command,
            environment: &self.environment(config),
            input,
            timeout: config.timeout,
        };
        invoke(&invocation).await
    }
}

/// Calls ADD on each plugin, each with the result of the one before. After an error the caller calls [`del`], which
/// undoes what the first ones did.
pub(in super::super) async fn add(attachment: &mut CniAttachment, call: &Call<'_>) -> Result<Attachment, CniError> {
    if !attachment.port_mappings.is_empty() && !attachment.chain.plugins.iter().any(|p| p.wants(PORT_MAPPINGS)) {
        tracing::warn!(network = attachment.chain.name, "no plugin of the CNI network makes host ports");
    }
    let mut previous: Option<Value> = None;
    let mut last = "";
    for plugin in &attachment.chain.plugins {
        let output = call.run(plugin, "ADD", &attachment.input(plugin, previous.as_ref())).await?;
        let result = serde_json::from_slice(&output)
            .map_err(|source| CniError::BadResult { plugin: plugin.kind.clone(), source })?;
        previous = Some(result);
        last = &plugin.kind;
    }
    let answer = result::attachment(last, previous.as_ref().unwrap_or(&Value::Null))?;
    attachment.result = previous;
    Ok(answer)
}

/// Calls DEL on each plugin in reverse. All are called, whatever the others say; the first error is returned, and a
/// later call starts again, as the specification lets every plugin be called for what is gone.
pub(in super::super) async fn del(attachment: &CniAttachment, call: &Call<'_>) -> Result<(), CniError> {
    // Before 0.4.0 plugins are not given the result of ADD.
    let previous = attachment.result.as_ref().filter(|_| !attachment.chain.version.starts_with("0.3."));
    let mut outcome = Ok(());
    for plugin in attachment.chain.plugins.iter().rev() {
        let deleted = call.run(plugin, "DEL", &attachment.input(plugin, previous)).await;
        if let (Err(error), Ok(())) = (deleted, &outcome) {
            outcome = Err(error);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use minke_core::runtime::Protocol;

    fn attachment() -> CniAttachment {
        let plugin = |config: Value| {
            let Value::Object(config) = config else { unreachable!("an object") };
            Plugin { kind: config["type"].as_str().unwrap().to_owned(), config }
        };
        let chain = Chain {
            name: "pods".to_owned(),
            version: "1.0.0".to_owned(),
            plugins: vec![
                plugin(json!({"type": "bridge", "bridge": "br0"})),
                plugin(json!({"type": "portmap", "capabilities": {"portMappings": true}})),
            ],
        };
        let port = PortMapping {
            protocol: Protocol::Udp,
            container_port: 53,
            host_port: 5353,
            host_ip: Some("127.0.0.1".parse().unwrap()),
        };
        CniAttachment::new(chain, &[port])
    }

    #[test]
    fn the_runtime_adds_name_version_result_and_the_capabilities_asked_for() {
        let attachment = attachment();
        let bridge = attachment.input(&attachment.chain.plugins[0], None);
        assert_eq!(bridge, json!({"type": "bridge", "bridge": "br0", "name": "pods", "cniVersion": "1.0.0"}));
        let previous = json!({"ips": []});
        let portmap = attachment.input(&attachment.chain.plugins[1], Some(&previous));
        assert_eq!(
            portmap,
            json!({
                "type": "portmap",
                "name": "pods",
                "cniVersion": "1.0.0",
                "prevResult": {"ips": []},
                "runtimeConfig": {"portMappings": [
                    {"hostPort": 5353, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"}
                ]},
            })
        );
    }
}
