//! Which representation a client gets: the first in its list that there is.

use crate::error::{ApiError, Reason};

/// How objects are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As a `Table`.
    Table,
    /// Their metadata alone.
    Metadata,
    /// `APIGroupDiscoveryList` of this version: `v2` or `v2beta1`.
    Discovery,
}

/// Which of the special forms a path has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Tables and metadata besides JSON.
    Objects,
    /// Aggregated discovery besides JSON.
    Discovery,
}

/// The form for an `Accept` header. None at all is JSON.
///
/// # Errors
/// 406 if nothing in it is here.
pub(crate) fn negotiate(accept: &str, offer: Offer) -> Result<Form, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Form::Object);
    }
    for option in accept.split(',') {
        let mut parts = option.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            continue;
        }
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let get = |name: &str| parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
        match (get("as"), offer) {
            ("", _) => return Ok(Form::Object),
            ("Table", Offer::Objects) if get("v") == "v1" && get("g") == "meta.k8s.io" => return Ok(Form::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", Offer::Objects) if get("v") == "v1" => {
                return Ok(Form::Metadata);
            }
            // Old clients ask for v2beta1 alone and break on v2.
            ("APIGroupDiscoveryList", Offer::Discovery) if get("v") == "v2" && get("g") == "apidiscovery.k8s.io" => {
                return Ok(Form::Discovery);
            }
            _ => {}
        }
    }
    let message = "only the following media types are accepted: application/json";
    Err(ApiError::new(Reason::NotAcceptable, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_acceptable_form_is_chosen() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(table, Offer::Objects).unwrap(), Form::Table);
        assert_eq!(negotiate(table, Offer::Discovery).unwrap(), Form::Object);
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(protobuf, Offer::Objects).unwrap(), Form::Object);
        assert_eq!(negotiate("application/vnd.kubernetes.protobuf", Offer::Objects).unwrap_err().code(), 406);
        assert_eq!(negotiate("*/*", Offer::Objects).unwrap(), Form::Object);
        assert_eq!(negotiate("application/json;stream=watch", Offer::Objects).unwrap(), Form::Object);
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(negotiate(metadata, Offer::Objects).unwrap(), Form::Metadata);
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(negotiate(old, Offer::Discovery).unwrap(), Form::Object);
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(negotiate(new, Offer::Discovery).unwrap(), Form::Discovery);
    }
}
