//! Tests of admission, one for each predicate.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use minke_core::resources::Amount;
use minke_core::runtime::Protocol;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn machine() -> Machine {
    let amounts = [("cpu", "2"), ("memory", "4Gi"), ("ephemeral-storage", "10Gi")];
    Machine {
        name: "here".to_owned(),
        allocatable: amounts.map(|(n, a)| (n.to_owned(), Amount::parse(a).unwrap())).into(),
        max_pods: 3,
        labels: BTreeMap::from([
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("rank".to_owned(), "7".to_owned()),
        ]),
    }
}

fn pod(name: &str, spec: &Value) -> Pod {
    let mut whole = json!({"containers": [{"name": "c"}]});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")}, "spec": whole}),
    )
    .unwrap()
}

fn asks(name: &str, requests: &Value) -> Pod {
    pod(name, &json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn verdict_with(pod: &Pod, active: &[&Pod], taken_ports: &[HostPort]) -> Result<(), (String, String)> {
    let machine = machine();
    let allowed_sysctls = &["net.core.*".to_owned()];
    match admit(pod, &Admitting { machine: &machine, active, pressure: &[], taken_ports, allowed_sysctls }) {
        Verdict::Admit => Ok(()),
        Verdict::Reject(Rejection { reason, message }) => Err((reason, message)),
        Verdict::Preempt(preemption) => Err(("Preempt".to_owned(), format!("{:?}", preemption.victims))),
    }
}

fn verdict(pod: &Pod, active: &[&Pod]) -> Result<(), (String, String)> {
    verdict_with(pod, active, &[])
}

fn reason(pod: &Pod, active: &[&Pod]) -> String {
    verdict(pod, active).map_or_else(|(reason, _)| reason, |()| "admitted".to_owned())
}

fn rejected(reason: &str, message: &str) -> Result<(), (String, String)> {
    Err((reason.to_owned(), message.to_owned()))
}

#[test]
fn an_empty_machine_takes_what_fits() {
    assert_eq!(verdict(&asks("a", &json!({"cpu": "2", "memory": "4Gi"})), &[]), Ok(()));
    assert_eq!(verdict(&pod("a", &json!({})), &[]), Ok(()));
}

#[test]
fn out_of_each_resource_in_upstreams_words() {
    let used = asks("used", &json!({"cpu": "1500m", "memory": "1Gi"}));
    assert_eq!(
        verdict(&asks("a", &json!({"cpu": "501m"})), &[&used]),
        rejected("OutOfcpu", "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000")
    );
    assert_eq!(verdict(&asks("a", &json!({"cpu": "500m"})), &[&used]), Ok(()));
    assert_eq!(
        verdict(&asks("a", &json!({"memory": "4Gi"})), &[&used]),
        rejected(
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 4294967296, used: 1073741824, capacity: 4294967296"
        )
    );
    assert_eq!(reason(&asks("a", &json!({"ephemeral-storage": "11Gi"})), &[]), "OutOfephemeral-storage");
    assert_eq!(reason(&asks("a", &json!({"example.com/gpu": "1"})), &[]), "admitted");
}

#[test]
fn out_of_resources_that_the_machine_has_none_of() {
    assert_eq!(reason(&asks("a", &json!({"hugepages-2Mi": "2Mi"})), &[]), "OutOfhugepages-2Mi");
    let mut machine = machine();
    machine.allocatable.insert("example.com/gpu".to_owned(), Amount::from_units(1));
    let there = asks("there", &json!({"example.com/gpu": "1"}));
    let (pressure, taken_ports, allowed_sysctls) = (&[], &[], &[]);
    let verdict = |active: &[&Pod]| {
        let to = Admitting { machine: &machine, active, pressure, taken_ports, allowed_sysctls };
        admit(&asks("a", &json!({"example.com/gpu": "1"})), &to)
    };
    assert_eq!(verdict(&[]), Verdict::Admit);
    let Verdict::Reject(rejection) = verdict(&[&there]) else { panic!("admitted") };
    assert_eq!(rejection.reason, "OutOfexample.com/gpu");
}

#[test]
fn init_containers_and_sidecars_count_as_they_run() {
    let with = |init: Value| {
        let main = json!([{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]);
        reason(&pod("a", &json!({"containers": main, "initContainers": init})), &[])
    };
    let asks = |policy: Value, cpu: &str| json!([{"name": "i", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}}]);
    assert_eq!(with(asks(Value::Null, "2")), "admitted", "an init container is gone before the others start");
    assert_eq!(with(asks(Value::Null, "2001m")), "OutOfcpu");
    assert_eq!(with(asks(json!("Always"), "501m")), "OutOfcpu", "a sidecar runs beside the others");
    assert_eq!(with(asks(json!("Always"), "500m")), "admitted");
}

#[test]
fn a_critical_pod_takes_the_place_of_others() {
    let critical = |spec: &Value| {
        let mut pod = asks("critical", spec);
        pod.spec.as_mut().unwrap().priority_class_name = Some("system-node-critical".to_owned());
        pod
    };
    let (idle, busy) = (pod("idle", &json!({})), asks("busy", &json!({"cpu": "2"})));
    let wants = critical(&json!({"cpu": "1"}));
    assert_eq!(verdict(&wants, &[&idle, &busy]), rejected("Preempt", "[uid-busy]"));
    assert_eq!(reason(&asks("a", &json!({"cpu": "1"})), &[&idle, &busy]), "OutOfcpu", "an ordinary one does not");
    let (reason_of_none, message) = verdict(&critical(&json!({"cpu": "3"})), &[&busy]).unwrap_err();
    assert_eq!(reason_of_none, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
         pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
    );
    let mut elsewhere = wants;
    elsewhere.spec.as_mut().unwrap().node_name = Some("there".to_owned());
    assert_eq!(reason(&elsewhere, &[&busy]), "NodeName", "nobody goes for a pod that would not run here anyway");
    assert_eq!(reason(&critical(&json!({"cpu": "2", "memory": "5Gi"})), &[&busy]), "UnexpectedAdmissionError");
}

#[test]
fn under_pressure_only_some_come_in() {
    let machine = machine();
    let with = |pod: &Pod, pressure: &[Pressure]| {
        admit(pod, &Admitting { machine: &machine, active: &[], pressure, taken_ports: &[], allowed_sysctls: &[] })
    };
    let plain = pod("a", &json!({}));
    assert_eq!(with(&plain, &[]), Verdict::Admit);
    let message = "The node had condition: [DiskPressure]. ".to_owned();
    assert_eq!(with(&plain, &[Pressure::Disk]), Verdict::Reject(Rejection { reason: "Evicted".to_owned(), message }));
    assert_eq!(with(&asks("a", &json!({"cpu": "1"})), &[Pressure::Memory]), Verdict::Admit);
}

#[test]
fn out_of_pods() {
    let others: Vec<Pod> = ["x", "y", "z"].map(|name| pod(name, &json!({}))).into();
    let others: Vec<&Pod> = others.iter().collect();
    assert_eq!(
        verdict(&pod("a", &json!({})), &others),
        rejected("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3")
    );
    assert_eq!(verdict(&pod("a", &json!({})), &others[..2]), Ok(()));
    assert_eq!(verdict(&pod("z", &json!({})), &others), Ok(()), "the same pod again");
}

#[test]
fn a_name_that_another_uid_has() {
    let there = pod("a", &json!({}));
    let mut again = there.clone();
    assert_eq!(verdict(&again, &[&there]), Ok(()));
    again.metadata.uid = Some("other".to_owned());
    assert_eq!(reason(&again, &[&there]), "AlreadyExists");
    again.metadata.namespace = Some("elsewhere".to_owned());
    assert_eq!(verdict(&again, &[&there]), Ok(()));
}

fn port_pod(name: &str, ports: &Value) -> Pod {
    pod(name, &json!({"containers": [{"name": "c", "ports": ports}]}))
}

#[test]
fn ports_of_other_pods() {
    let there = port_pod("there", &json!([{"containerPort": 80, "hostPort": 8080}]));
    let same = port_pod("a", &json!([{"containerPort": 1, "hostPort": 8080}]));
    assert_eq!(
        verdict(&same, &[&there]),
        rejected("NodePorts", "Predicate NodePorts failed: host port 8080/TCP is used by pod there")
    );
    for free in [
        json!([{"containerPort": 80}]),
        json!([{"containerPort": 80, "hostPort": 8081}]),
        json!([{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]),
    ] {
        assert_eq!(verdict(&port_pod("a", &free), &[&there]), Ok(()), "{free}");
    }
    let one = port_pod("one", &json!([{"containerPort": 80, "hostPort": 9, "hostIP": "192.0.2.1"}]));
    let two = port_pod("two", &json!([{"containerPort": 80, "hostPort": 9, "hostIP": "192.0.2.2"}]));
    let all = port_pod("all", &json!([{"containerPort": 80, "hostPort": 9, "hostIP": "0.0.0.0"}]));
    assert_eq!(verdict(&one, &[&two]), Ok(()));
    assert_eq!(reason(&one, &[&all]), "NodePorts");
}

#[test]
fn ports_with_the_hosts_network_and_of_init_containers() {
    let host =
        pod("host", &json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}));
    assert_eq!(host_ports(&host).len(), 1);
    let init = |policy: Value| {
        pod(
            "i",
            &json!({"initContainers": [{"name": "i", "restartPolicy": policy, "ports": [{"containerPort": 1, "hostPort": 80}]}]}),
        )
    };
    assert_eq!(reason(&init(Value::Null), &[&host]), "admitted");
    assert_eq!(reason(&init(json!("Always")), &[&host]), "NodePorts");
}

#[test]
fn ports_taken_by_programs() {
    let wants = port_pod("a", &json!([{"containerPort": 80, "hostPort": 8080}]));
    let taken = HostPort { protocol: Protocol::Tcp, port: 8080, ip: None };
    assert_eq!(
        verdict_with(&wants, &[], &[taken]),
        rejected("NodePorts", "Predicate NodePorts failed: host port 8080/TCP is taken by a program on this machine")
    );
}

#[test]
fn node_selectors_names_and_systems() {
    let select = |spec: Value| reason(&pod("a", &spec), &[]);
    assert_eq!(select(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})), "admitted");
    assert_eq!(select(json!({"nodeSelector": {"kubernetes.io/os": "windows"}})), "NodeAffinity");
    assert_eq!(select(json!({"nodeSelector": {"disk": "ssd"}})), "NodeAffinity");
    assert_eq!(select(json!({"nodeName": "here"})), "admitted");
    assert_eq!(select(json!({"nodeName": "there"})), "NodeName");
    assert_eq!(select(json!({"os": {"name": "linux"}})), "admitted");
    assert_eq!(select(json!({"os": {"name": "windows"}})), "PodOSNotSupported");
    let mut labelled = pod("a", &json!({}));
    labelled.metadata.labels = Some(BTreeMap::from([("kubernetes.io/os".to_owned(), "windows".to_owned())]));
    assert_eq!(reason(&labelled, &[]), "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn node_affinity_terms() {
    let with = |terms: Value| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        reason(&pod("a", &json!({"affinity": {"nodeAffinity": required}})), &[])
    };
    let expression = |key: &str, operator: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
    assert_eq!(with(expression("rank", "In", json!(["6", "7"]))), "admitted");
    assert_eq!(with(expression("rank", "NotIn", json!(["7"]))), "NodeAffinity");
    assert_eq!(with(expression("rank", "Gt", json!(["6"]))), "admitted");
    assert_eq!(with(expression("rank", "Lt", json!(["7"]))), "NodeAffinity");
    assert_eq!(with(expression("none", "Exists", json!([]))), "NodeAffinity");
    assert_eq!(with(expression("none", "DoesNotExist", json!([]))), "admitted");
    assert_eq!(with(json!([{}])), "NodeAffinity");
    assert_eq!(
        with(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["here"]}]}])),
        "admitted"
    );
}

#[test]
fn sysctls_on_the_allow_list() {
    let with = |name: &str, extra: Value| {
        let mut spec = extra;
        spec["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        verdict(&pod("a", &spec), &[]).map_err(|(_, message)| message)
    };
    assert_eq!(with("net.ipv4.tcp_syncookies", json!({})), Ok(()));
    assert_eq!(with("net/ipv4/tcp_syncookies", json!({})), Ok(()));
    assert_eq!(with("net.core.somaxconn", json!({})), Ok(()));
    let refused = |words: &str| Err(format!("forbidden sysctl: {words}"));
    assert_eq!(with("net.ipv4.ip_forward", json!({})), refused("\"net.ipv4.ip_forward\" not allowlisted"));
    assert_eq!(with("vm.swappiness", json!({})), refused("\"vm.swappiness\" not allowlisted"));
    assert_eq!(
        with("net.ipv4.tcp_syncookies", json!({"hostNetwork": true})),
        refused("\"net.ipv4.tcp_syncookies\" not allowed with host net enabled")
    );
    assert_eq!(
        with("kernel.shm_rmid_forced", json!({"hostIPC": true})),
        refused("\"kernel.shm_rmid_forced\" not allowed with host ipc enabled")
    );
}

#[test]
fn profiles_that_would_not_be_enforced_are_refused() {
    let with = |kind: &str| reason(&pod("a", &json!({"securityContext": {"appArmorProfile": {"type": kind}}})), &[]);
    assert_eq!(with("Unconfined"), "admitted");
    assert_eq!(with("RuntimeDefault"), "AppArmor");
}

proptest! {
    /// Whatever order Pods come in, what was admitted never exceeds the machine, and a Pod is refused only when it
    /// would.
    #[test]
    fn admitted_pods_always_fit(cpus in prop::collection::vec(0_i64..2500, 1..12)) {
        let mut machine = machine();
        machine.max_pods = 100;
        let pods: Vec<Pod> = cpus.iter().enumerate().map(|(i, m)| asks(&format!("p{i}"), &json!({"cpu": format!("{m}m")}))).collect();
        let mut active: Vec<&Pod> = Vec::new();
        let mut used = 0;
        for (pod, millis) in pods.iter().zip(&cpus) {
            let (pressure, taken_ports, allowed_sysctls) = (&[], &[], &[]);
            let to = Admitting { machine: &machine, active: &active, pressure, taken_ports, allowed_sysctls };
            let admitted = admit(pod, &to) == Verdict::Admit;
            prop_assert_eq!(admitted, used + millis <= 2000 || *millis == 0);
            if admitted {
                active.push(pod);
                used += millis;
            }
        }
    }
}
