//! Any text as a bearer token, a token file, a bootstrap token's Secret, a certificate's name: never a panic, nobody is somebody
//! else; a token that was signed is read as it was, and one that was changed is not.

use std::sync::LazyLock;

use jiff::Timestamp;
use minke_apiserver::access::{Claims, Issuer, Tokens};
use minke_apiserver::fuzzing::{bootstrapper, certificate};
use serde_json::{Value, json};

static ISSUER: LazyLock<Issuer> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("minke-fuzz-{}", std::process::id()));
    let issuer = Issuer::open(&directory).expect("a key");
    std::fs::remove_dir_all(&directory).expect("a directory of our own");
    issuer
});

fn signed(text: &str) -> String {
    let half = text.len() / 2;
    let (a, b) =
        text.char_indices().map(|(at, _)| at).find(|at| *at >= half).map_or((text, ""), |at| text.split_at(at));
    let claims = Claims {
        audiences: vec![a.to_owned()],
        issued: 1,
        expires: i64::try_from(text.len()).unwrap_or_default(),
        id: b.to_owned(),
        namespace: a.to_owned(),
        account: (b.to_owned(), a.to_owned()),
        pod: (!a.is_empty()).then(|| (a.to_owned(), b.to_owned())),
        node: None,
        secret: None,
    };
    let token = ISSUER.sign(&claims).expect("random bytes");
    if token.len() < 16 << 10 {
        assert_eq!(ISSUER.read(&token).as_ref(), Ok(&claims));
    }
    token
}

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(ISSUER.read(&text).is_err(), "nobody else has the key");
    let token = signed(&text);
    if let Some([at, to]) = data.first_chunk::<2>() {
        let mut changed = token.clone().into_bytes();
        let at = usize::from(*at) * changed.len() / 256;
        changed[at] = *to;
        let changed = String::from_utf8_lossy(&changed);
        assert!(changed == token || ISSUER.read(&changed).is_err(), "{changed}");
    }
    let _ = certificate(data);
    assert_eq!(Tokens::parse(&text).find(""), None);
    let now = Timestamp::UNIX_EPOCH;
    let secret = serde_json::from_slice::<Value>(data).unwrap_or_else(|_| json!({"data": {"token-secret": text}}));
    if let Some(identity) = bootstrapper(&secret, "abcdef.0123456789abcdef", now) {
        assert_eq!((identity.user.as_str(), identity.node()), ("system:bootstrap:abcdef", None));
        assert!(identity.groups.iter().all(|group| group.starts_with("system:bootstrappers")), "{identity:?}");
    }
}
