//! Any bytes as a certificate signing request: never a panic, and what is read was signed with its own key.

use minke_apiserver::access::CertificateRequest;

pub(crate) fn run(data: &[u8]) {
    let _ = CertificateRequest::parse(data);
    if let Ok(request) = CertificateRequest::parse_der(data) {
        assert_eq!(CertificateRequest::parse_der(data).as_ref(), Ok(&request));
        // Nothing in a signed part can be changed.
        let mut forged = data.to_vec();
        if let Some(byte) = forged.get_mut(40) {
            *byte ^= 1;
            assert_ne!(CertificateRequest::parse_der(&forged).as_ref(), Ok(&request));
        }
    }
}
