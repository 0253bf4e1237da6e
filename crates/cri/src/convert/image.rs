//! Images.

use minke_core::runtime::{Credential, ImageId, ImageStatus, ImageUser};

use crate::api;

/// An image by any of its names.
pub(crate) fn spec(image: &str) -> api::ImageSpec {
    api::ImageSpec { image: image.to_owned(), ..Default::default() }
}

/// An image of the store.
pub(crate) fn status(image: api::Image) -> ImageStatus {
    let user = match (image.uid, image.username) {
        // Minus one and the like are no users.
        (Some(uid), _) => u32::try_from(uid.value).map_or(ImageUser::Root, ImageUser::Uid),
        (None, name) if name.is_empty() => ImageUser::Root,
        (None, name) => ImageUser::Name(name),
    };
    ImageStatus {
        id: ImageId(image.id),
        tags: image.repo_tags,
        digests: image.repo_digests,
        size_bytes: image.size,
        user,
        pinned: image.pinned,
    }
}

/// A login, for one pull.
pub(crate) fn login(credential: &Credential) -> api::AuthConfig {
    let mut auth = api::AuthConfig::default();
    match credential {
        Credential::Basic { username, password } => {
            auth.username.clone_from(username);
            auth.password.clone_from(password);
        }
        Credential::IdentityToken(token) => auth.identity_token.clone_from(token),
        Credential::RegistryToken(token) => auth.registry_token.clone_from(token),
    }
    auth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_an_image_runs_as() {
        let image = |uid: Option<i64>, name: &str| {
            let uid = uid.map(|value| api::Int64Value { value });
            status(api::Image { id: "sha256:1".into(), uid, username: name.into(), ..Default::default() }).user
        };
        assert_eq!(image(None, ""), ImageUser::Root);
        assert_eq!(image(Some(0), ""), ImageUser::Uid(0));
        assert_eq!(image(Some(1000), ""), ImageUser::Uid(1000));
        assert_eq!(image(None, "www"), ImageUser::Name("www".to_owned()));
    }

    #[test]
    fn each_kind_of_login_has_its_field() {
        let basic = login(&Credential::Basic { username: "u".to_owned(), password: "p".to_owned() });
        assert_eq!((basic.username.as_str(), basic.password.as_str(), basic.auth.as_str()), ("u", "p", ""));
        assert_eq!(login(&Credential::IdentityToken("t".to_owned())).identity_token, "t");
        assert_eq!(login(&Credential::RegistryToken("t".to_owned())).registry_token, "t");
    }
}
