//! Probes and lifecycle hooks.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, PodSpec, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::error::Errors;
use super::names::port_name;
use super::path::FieldPath;
use super::pod::one_of;
use super::ports::{is_port, port_number};

/// The three probes, whose rules differ a little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Liveness,
    Readiness,
    Startup,
}

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

pub(crate) fn probe(errors: &mut Errors, probe: Option<&Probe>, kind: ProbeKind, path: &FieldPath) {
    let Some(probe) = probe else { return };
    let handlers = Handlers {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    handlers.check(errors, path);
    let counts = [
        (probe.initial_delay_seconds, "initialDelaySeconds"),
        (probe.timeout_seconds, "timeoutSeconds"),
        (probe.period_seconds, "periodSeconds"),
        (probe.success_threshold, "successThreshold"),
        (probe.failure_threshold, "failureThreshold"),
    ];
    for (count, field) in counts {
        if let Some(count) = count.filter(|count| *count < 0) {
            errors.invalid(&path.field(field), count, NOT_NEGATIVE);
        }
    }
    let grace = path.field("terminationGracePeriodSeconds");
    match (kind, probe.termination_grace_period_seconds) {
        (_, None) => {}
        (ProbeKind::Readiness, Some(seconds)) => errors.invalid(&grace, seconds, "must not be set for readinessProbes"),
        (ProbeKind::Liveness | ProbeKind::Startup, Some(seconds)) if seconds <= 0 => {
            errors.invalid(&grace, seconds, "must be greater than 0");
        }
        (ProbeKind::Liveness | ProbeKind::Startup, Some(_)) => {}
    }
    match kind {
        ProbeKind::Readiness => {}
        ProbeKind::Liveness | ProbeKind::Startup => {
            if let Some(threshold) = probe.success_threshold.filter(|threshold| *threshold > 1) {
                errors.invalid(&path.field("successThreshold"), threshold, "must be 1");
            }
        }
    }
}

/// The ways in which something can be asked or told.
struct Handlers<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    /// With the longest sleep that makes sense.
    sleep: Option<(i64, i64)>,
}

impl Handlers<'_> {
    fn check(&self, errors: &mut Errors, path: &FieldPath) {
        let mut given = 0;
        let mut next = |errors: &mut Errors, field: &'static str| {
            given += 1;
            let at = path.field(field);
            if given > 1 {
                errors.forbidden(&at, "may not specify more than 1 handler type");
            }
            at
        };
        if let Some(exec) = self.exec {
            let at = next(errors, "exec");
            if exec.command.as_ref().is_none_or(Vec::is_empty) {
                errors.required(&at.field("command"), "");
            }
        }
        if let Some(http) = self.http_get {
            let at = next(errors, "httpGet");
            http_get(errors, http, &at);
        }
        if let Some(tcp) = self.tcp_socket {
            let at = next(errors, "tcpSocket");
            port(errors, &tcp.port, &at.field("port"));
        }
        if let Some(grpc) = self.grpc {
            let at = next(errors, "grpc");
            port_number(errors, grpc.port, &at.field("port"));
        }
        if let Some((seconds, most)) = self.sleep {
            let at = next(errors, "sleep");
            if !(0..=most).contains(&seconds) {
                let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({most})");
                errors.invalid(&at.field("seconds"), seconds, &detail);
            }
        }
        if given == 0 {
            errors.required(path, "must specify a handler type");
        }
    }
}

fn http_get(errors: &mut Errors, http: &HTTPGetAction, path: &FieldPath) {
    if http.path.as_deref() == Some("") {
        errors.required(&path.field("path"), "");
    }
    port(errors, &http.port, &path.field("port"));
    one_of(errors, http.scheme.as_deref(), &["HTTP", "HTTPS"], &path.field("scheme"));
    for (i, header) in http.http_headers.iter().flatten().enumerate() {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let at = path.field("httpHeaders").index(i).field("name");
        if header.name.is_empty() {
            errors.required(&at, "");
        } else if !header.name.bytes().all(token) {
            errors.invalid(&at, &header.name, "a valid HTTP header must consist of letters, digits, '-' and the like");
        }
    }
}

fn port(errors: &mut Errors, port: &IntOrString, path: &FieldPath) {
    match port {
        IntOrString::Int(number) if is_port(*number) => {}
        IntOrString::Int(number) => errors.invalid(path, *number, "must be between 1 and 65535, inclusive"),
        IntOrString::String(name) => {
            if let Some(problem) = port_name(name) {
                errors.invalid(path, name, problem);
            }
        }
    }
}

pub(crate) fn lifecycle(errors: &mut Errors, container: &Container, spec: &PodSpec, path: &FieldPath) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let grace = spec.termination_grace_period_seconds.unwrap_or(30);
    let handler = |errors: &mut Errors, handler: Option<&LifecycleHandler>, field: &'static str| {
        let Some(handler) = handler else { return };
        let handlers = Handlers {
            exec: handler.exec.as_ref(),
            http_get: handler.http_get.as_ref(),
            tcp_socket: handler.tcp_socket.as_ref(),
            grpc: None,
            sleep: handler.sleep.as_ref().map(|sleep| (sleep.seconds, grace)),
        };
        handlers.check(errors, &path.field(field));
    };
    handler(errors, lifecycle.post_start.as_ref(), "postStart");
    handler(errors, lifecycle.pre_stop.as_ref(), "preStop");
    stop_signal(errors, lifecycle, spec, &path.field("stopSignal"));
}

fn stop_signal(errors: &mut Errors, lifecycle: &Lifecycle, spec: &PodSpec, path: &FieldPath) {
    let Some(signal) = &lifecycle.stop_signal else { return };
    if spec.os.as_ref().is_none_or(|os| os.name.is_empty()) {
        errors.forbidden(path, "may not be set for containers with empty `spec.os.name`");
    }
    if !is_signal(signal) {
        errors.invalid(path, signal, "is not a signal of Linux, such as SIGTERM or SIGRTMIN+3");
    }
}

fn is_signal(name: &str) -> bool {
    const NAMES: [&str; 34] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS", "IOT", "POLL", "CLD",
    ];
    let Some(name) = name.strip_prefix("SIG") else { return false };
    let offset = |from: &str, sign: char, most: u32| {
        let Some(rest) = name.strip_prefix(from) else { return false };
        rest.is_empty()
            || rest.strip_prefix(sign).and_then(|n| n.parse().ok()).is_some_and(|n: u32| (1..=most).contains(&n))
    };
    NAMES.contains(&name) || offset("RTMIN", '+', 15) || offset("RTMAX", '-', 14)
}
