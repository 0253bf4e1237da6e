//! Any text as an image's name: never a panic; the parts put together are the same name.

use minke_kubelet::images::ImageName;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(name) = ImageName::parse(text) else { return };
    let tag = name.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = name.digest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
    let whole = format!("{}{tag}{digest}", name.path());
    assert_eq!(ImageName::parse(&whole).as_ref(), Ok(&name), "{text:?} is {whole:?}");
}
