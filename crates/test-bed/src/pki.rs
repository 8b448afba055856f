//! Certificates of a private authority.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

/// A certificate with its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A certificate authority that nobody trusts unless told so.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The authority's certificate, a PEM file.
    pub certificate: PathBuf,
}

impl Authority {
    /// A new authority, which keeps its files in `folder`.
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "test-bed");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let certificate = folder.join("ca.pem");
        fs::write(&certificate, issuer.pem()).expect("a writable folder");
        Self { folder: folder.to_owned(), issuer, certificate }
    }

    /// A certificate for a server that is reached as `localhost` or 127.0.0.1.
    pub fn server(&self) -> Identity {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        self.issue(
            "server",
            CertificateParams::new(names).expect("valid names"),
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// A certificate for a client with this name.
    pub fn client(&self, name: &str) -> Identity {
        self.issue(name, CertificateParams::default(), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Somebody whose tokens those accept who trust this authority.
    pub fn signer(&self) -> Signer {
        let pair = KeyPair::generate().expect("a key");
        let params = CertificateParams::default();
        let certificate = params.signed_by(&pair, &self.issuer).expect("a certificate");
        let chain = [STANDARD.encode(certificate.der())];
        Signer::new(&pair, &json!({ "alg": "ES256", "typ": "JWT", "x5c": chain }))
    }

    fn issue(&self, name: &str, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Identity {
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let pair = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&pair, &self.issuer).expect("a certificate");
        let identity = Identity {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        fs::write(&identity.certificate, signed.pem()).expect("a writable folder");
        fs::write(&identity.key, pair.serialize_pem()).expect("a writable folder");
        identity
    }
}

/// Signs JSON Web Tokens (ES256).
pub struct Signer {
    key: EcdsaKeyPair,
    header: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    pub(crate) fn new(pair: &KeyPair, header: &Value) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pair.serialize_der(), &random);
        Self { key: key.expect("a key of this curve"), header: URL_SAFE_NO_PAD.encode(header.to_string()) }
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{}.{payload}", self.header);
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}
