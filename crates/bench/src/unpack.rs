//! Unpacking a layer.

use std::path::Path;
use std::process::Command;

use minke_testkit::{Compression, ImageBuilder, Layer};

use crate::failure::Failure;
use crate::instance::Instance;
use crate::process;
use crate::report::{Peer, Row};
use crate::sample::Sample;

/// Imports an image with one gzip layer of `size` MiB (unpacked), and unpacks the same layer with tar.
pub(crate) fn measure(minke: &Path, size: usize, runs: usize) -> Result<Vec<Row>, Failure> {
    let directory = tempfile::Builder::new()
        .prefix("mk-unpack-")
        .tempdir()
        .map_err(Failure::file("making", Path::new("a directory")))?;
    let image =
        ImageBuilder::new().name("localhost/minke-bench/layer:1").compression(Compression::Gzip).layer(layer(size));
    let image = image.build();
    let layout = directory.path().join("layout");
    image.write_oci_layout(&layout).map_err(Failure::file("writing", &layout))?;
    let largest = image.blobs().max_by_key(|blob| blob.bytes.len());
    let blob = largest.ok_or_else(|| Failure::Unexpected("the image has no layer".to_owned()))?;
    let file = layout.join("blobs").join(blob.digest.replace(':', "/"));
    let tar = process::find("tar");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let instance = Instance::new(minke)?;
        ours.push(instance.import(&layout)?);
        drop(instance);
        if let Some(tar) = &tar {
            let into = directory.path().join("unpacked");
            std::fs::create_dir(&into).map_err(Failure::file("making", &into))?;
            theirs.push(process::time(Command::new(tar).arg("-xzf").arg(&file).arg("-C").arg(&into))?);
            std::fs::remove_dir_all(&into).map_err(Failure::file("removing", &into))?;
        }
    }
    let none = || Failure::Unexpected("nothing was unpacked".to_owned());
    let ours = Sample::of_times(&ours).ok_or_else(none)?;
    let peer = match Sample::of_times(&theirs) {
        Some(sample) => Peer::Measured { name: "tar -xzf".to_owned(), sample },
        None => Peer::NotInstalled { name: "tar".to_owned() },
    };
    let what = format!("import of a layer ({size} MiB, {} MiB as gzip)", blob.bytes.len() >> 20);
    Ok(vec![Row { what, ours, peer, aim: "≤ 1.2×" }])
}

/// Many small files and some large ones, about three times smaller when compressed: as distributions are.
fn layer(size: usize) -> Layer {
    const LARGE: usize = 1 << 20;
    const SMALL: usize = 8 << 10;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut layer = Layer::new();
    for megabyte in 0..size {
        layer = layer.dir(format!("usr/{megabyte}/"), 0o755);
        if megabyte % 2 == 0 {
            layer = layer.file(format!("usr/{megabyte}/large"), 0o755, noise.text(LARGE));
            continue;
        }
        for n in 0..LARGE / SMALL {
            layer = layer.file(format!("usr/{megabyte}/{n}"), 0o644, noise.text(SMALL));
        }
    }
    layer
}

/// Words of pseudo-random bytes, each four times: the same at every run.
struct Noise(u64);

impl Noise {
    fn text(&mut self, length: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(length + 32);
        while text.len() < length {
            // xorshift64
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            text.extend_from_slice(&self.0.to_le_bytes().repeat(4));
        }
        text.truncate(length);
        text
    }
}
