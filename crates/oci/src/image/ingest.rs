//! From layers to an image of the store: the part that pulls and imports share. Everything here blocks.

use std::io::Read;

use minke_core::runtime::{ImageId, PullError, error_chain};

use super::Digest;
use super::store::{Inner, LayerHold, LayerKey, Scratch};
use super::unpack::{Budget, ExpectedBlob, UnpackError, Unpacked, unpack};

/// A layer on its way into the store.
#[derive(Debug)]
pub(crate) enum Layer {
    /// In the store.
    Held(LayerHold),
    /// Unpacked, but to be completed from the layers below it.
    Waiting { scratch: Scratch, unpacked: Unpacked },
}

/// Unpacks a layer, and puts it into the store if it stands by itself.
pub(crate) fn unpack_layer(
    store: &Inner,
    key: &LayerKey,
    source: impl Read + Send,
    blob: Option<ExpectedBlob>,
    budget: &Budget,
) -> Result<Layer, UnpackError> {
    let scratch = store.scratch()?;
    let unpacked = unpack(source, blob, &key.diff_id, &scratch.path().join("fs"), budget)?;
    if unpacked.needs.is_empty() {
        return Ok(Layer::Held(store.publish_layer(key, false, &scratch, unpacked.meta)?));
    }
    Ok(Layer::Waiting { scratch, unpacked })
}

/// Completes the layers, lowest first, and makes the image known under `names`.
pub(crate) fn finish(
    store: &Inner,
    config_digest: &Digest,
    config: &[u8],
    layers: Vec<(LayerKey, Layer)>,
    names: &[String],
    budget: &Budget,
) -> Result<ImageId, UnpackError> {
    let mut holds: Vec<LayerHold> = Vec::with_capacity(layers.len());
    for (key, layer) in layers {
        let hold = match layer {
            Layer::Held(hold) => hold,
            Layer::Waiting { scratch, mut unpacked } => {
                let below: Vec<_> = holds.iter().map(LayerHold::tree).collect();
                unpacked.complete(&scratch.path().join("fs"), &below, budget)?;
                store.publish_layer(&key, true, &scratch, unpacked.meta)?
            }
        };
        holds.push(hold);
    }
    let id = ImageId(config_digest.to_string());
    store.publish_image(&id, config, names, &holds)?;
    Ok(id)
}

impl UnpackError {
    /// This error as one of the Runtime port.
    pub(crate) fn into_pull(self, image: &str) -> PullError {
        let image = image.to_owned();
        match self {
            Self::Bad(message) => PullError::BadContent { image, message },
            Self::Digest { expected, found } => {
                PullError::DigestMismatch { image, message: format!("expected {expected}, found {found}") }
            }
            Self::Source(error) => PullError::Network { image, message: error.to_string() },
            error @ (Self::Storage { .. } | Self::Store(_)) => {
                PullError::Storage { image, message: error_chain(&error) }
            }
        }
    }
}
