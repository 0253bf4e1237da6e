//! The services of one namespace, or one of them, followed.
//!
//! Kept small: of a service only its name, address and ports are told to containers.

use std::collections::BTreeMap;

use futures_util::stream;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;

use super::follow::{Following, News};
use crate::api::ObjectStream;
use crate::references::Known;

/// The services, for ever. Empty `name`: all of the namespace.
pub(super) fn follow(api: Api<Service>, name: String) -> ObjectStream {
    let begun = (Following::new(api, name), Services::default());
    Box::pin(stream::unfold(begun, |(mut following, mut services)| async {
        let known = services.after(following.next().await);
        Some((known, (following, services)))
    }))
}

/// By name, each as it is told.
#[derive(Debug, Default)]
struct Services(BTreeMap<String, Service>);

impl Services {
    fn after(&mut self, news: News<Service>) -> Known {
        match news {
            News::Listed(all) => self.0 = all.into_iter().filter_map(told).collect(),
            News::Applied(service) => self.0.extend(told(service)),
            News::Deleted(service) => drop(self.0.remove(service.metadata.name.as_deref().unwrap_or_default())),
            // Pods are started without them rather than never.
            News::Unreadable(why) => return Known::Unreadable(why),
        }
        Known::Services(self.0.values().cloned().collect::<Vec<_>>().into())
    }
}

/// What is told of it.
fn told(service: Service) -> Option<(String, Service)> {
    let name = service.metadata.name?;
    let spec = service.spec.map(|spec| ServiceSpec {
        cluster_ip: spec.cluster_ip,
        ports: spec.ports,
        ..ServiceSpec::default()
    });
    let metadata =
        ObjectMeta { name: Some(name.clone()), namespace: service.metadata.namespace, ..ObjectMeta::default() };
    Some((name, Service { metadata, spec, status: None }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_come_change_and_go() {
        let service = |name: &str, ip: &str| -> Service {
            serde_json::from_value(json!({"metadata": {"name": name, "uid": "u"}, "spec": {"clusterIP": ip}})).unwrap()
        };
        let mut services = Services::default();
        let mut after = |news| match services.after(news) {
            Known::Services(all) => all
                .iter()
                .map(|s| s.spec.as_ref().and_then(|s| s.cluster_ip.clone()).unwrap_or_default())
                .collect::<Vec<_>>()
                .join(" "),
            other => format!("{other:?}"),
        };
        assert_eq!(after(News::Listed(vec![service("b", "2"), service("a", "1")])), "1 2");
        assert_eq!(after(News::Applied(service("b", "3"))), "1 3");
        assert_eq!(after(News::Unreadable("no".to_owned())), "Unreadable");
        assert_eq!(after(News::Deleted(service("a", "1"))), "3");
        assert_eq!(after(News::Listed(Vec::new())), "");
    }
}
