//! Images.

use std::sync::Arc;

use minke_core::runtime::{NoProgress, PullRequest};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

pub(crate) async fn the_store(s: &Stage) -> Result<(), Broken> {
    let (r, name) = (s.runtime(), &s.subject.spare_image);
    let Some(status) = r.image_status(name).await? else { return Err(Broken(format!("{name} is not there"))) };
    s.say(format!("its name is {}", if status.tags.contains(name) { "listed" } else { "missing" }));
    s.say(format!("its id is a digest: {}", status.id.0.starts_with("sha256:")));
    s.say(format!("it has a size: {}", status.size_bytes > 0));
    s.say(format!("by id it is the same: {}", r.image_status(&status.id.0).await?.is_some_and(|i| i.id == status.id)));
    let listed = r.list_images().await?.iter().filter(|image| image.id == status.id).count();
    s.say(format!("listed: {listed}"));
    for _ in 0..2 {
        s.say(format!("remove: {}", words::outcome(&r.remove_image(name).await)));
    }
    s.say(format!("there: {}", r.image_status(name).await?.is_some()));
    s.say(format!("another: {}", r.image_status("localhost/no/such:1").await?.is_some()));
    s.say(format!("disk: {}", r.image_fs_info().await?.capacity_bytes > 0));
    Ok(())
}

pub(crate) async fn in_use(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    let (image, name) = &s.subject.image;
    s.say(format!("remove: {}", words::outcome(&s.runtime().remove_image(name).await)));
    s.say(format!("there: {}", s.runtime().image_status(&image.0).await?.is_some()));
    s.say(format!("the container is {}", s.state(&id).await?));
    Ok(())
}

pub(crate) async fn pulls(s: &Stage) -> Result<(), Broken> {
    let host = s.subject.registry.clone().unwrap_or_default();
    for name in [&format!("{host}/good:1"), &format!("{host}/missing:1"), &format!("{host}/secret:1"), "Not A Name"] {
        let request = PullRequest { image: name.to_owned(), credentials: Vec::new(), progress: Arc::new(NoProgress) };
        let said = match s.runtime().pull_image(&request).await {
            Ok(id) => format!("pulled, there: {}", s.runtime().image_status(&id.0).await?.is_some()),
            Err(error) => words::pull_refusal(&error).to_owned(),
        };
        s.say(format!("{}: {said}", name.trim_start_matches(&host)));
    }
    s.runtime().remove_image(&format!("{host}/good:1")).await?;
    Ok(())
}
