//! One ConfigMap or Secret, followed by name.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use kube::api::Api;
use serde::de::DeserializeOwned;

use super::follow::{Following, News};
use crate::api::ObjectStream;
use crate::references::Known;

pub(super) fn config_map(map: ConfigMap) -> Known {
    Known::ConfigMap(Arc::new(map))
}

pub(super) fn secret(secret: Secret) -> Known {
    Known::Secret(Arc::new(secret))
}

/// What is known of the object, for ever.
pub(super) fn follow<K>(api: Api<K>, name: String, known: fn(K) -> Known) -> ObjectStream
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Box::pin(stream::unfold(Following::new(api, name), move |mut following| async move {
        let known = match following.next().await {
            News::Listed(mut objects) => objects.pop().map_or(Known::Absent, known),
            News::Applied(object) => known(object),
            News::Deleted(_) => Known::Absent,
            News::Unreadable(why) => Known::Unreadable(why),
        };
        Some((known, following))
    }))
}
