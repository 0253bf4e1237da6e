//! The images of the examples, made from one static program: no registry, no container tool.

use std::path::Path;
use std::process::ExitCode;

use minke_core::runtime::error_chain;
use minke_testkit::{ImageBuilder, Layer, busybox_image};

use crate::busybox;

/// The images by name; the files are called after the part between the last `/` and the tag.
pub(crate) const BUSYBOX: &str = "localhost/minke-demo/busybox:1";
/// See [`BUSYBOX`].
pub(crate) const WEB: &str = "localhost/minke-demo/web:1";

/// Serves `/www` on port 8080 until it is told to stop. The first process of a container gets no signal that it does
/// not handle, so the shell stays and passes TERM on.
const SERVE: &str = "\
#!/bin/sh
httpd -f -vv -p \"${PORT:-8080}\" -h \"${ROOT:-/www}\" &
server=$!
trap 'kill $server; exit 0' TERM INT
wait $server
";

const PAGE: &str = "hello from a Pod that Minke runs\n";

/// Writes one OCI archive an image into `directory`, and says so.
pub(crate) fn run(directory: &Path) -> ExitCode {
    match write(directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("can't make the images: {}", error_chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(directory)?;
    let binary = busybox::find(&crate::root().join(".cache/busybox"))?;
    println!("program: {}", binary.display());
    let images = [(BUSYBOX, busybox_image(&binary)?), (WEB, web(busybox_image(&binary)?))];
    for (name, image) in images {
        let file = directory.join(file_name(name));
        let image = image.name(name).build();
        image.write_oci_archive(&file)?;
        println!("image:   {name} {} -> {}", image.id(), file.display());
    }
    Ok(())
}

/// The web server: a layer with the page and the script, a user of its own, a command.
fn web(image: ImageBuilder) -> ImageBuilder {
    let layer = Layer::new().dir("www/", 0o755).file("www/index.html", 0o644, PAGE).file("bin/serve", 0o755, SERVE);
    image.layer(layer).user("app").working_dir("/www").entrypoint(["/bin/serve"]).cmd(Vec::<String>::new())
}

fn file_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    format!("{}.tar", last.split(':').next().unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_called_after_their_images() {
        assert_eq!(file_name(BUSYBOX), "busybox.tar");
        assert_eq!(file_name(WEB), "web.tar");
    }

    #[test]
    fn the_web_image_runs_as_its_own_user_and_its_page_is_readable() {
        let image = web(ImageBuilder::new()).name(WEB).build();
        let config: serde_json::Value = serde_json::from_slice(&image.config.bytes).unwrap();
        assert_eq!(config["config"]["User"], "app");
        assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/bin/serve"]));
        assert_eq!(image.layers.len(), 1);
    }
}
