//! TLS on both listeners.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use weir_control_plane::settings::TlsFiles;
use weir_control_plane::{ControlPlane, Settings};
use weir_testbed::Postgres;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admin/tls").join(name)
}

#[tokio::test]
async fn the_dashboard_and_the_agents_listener_speak_tls() {
    let postgres = Postgres::temporary().await.unwrap();
    let database = postgres.create_database("weir").await.unwrap();
    let tls = TlsFiles { certificate: file("certificate.pem"), key: file("key.pem") };
    let plane = ControlPlane::start(Settings { tls: Some(tls), ..Settings::new(&database) }).await.unwrap();
    assert!(plane.sign_in_link().await.unwrap().starts_with("https://"));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("certificate.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.with_root_certificates(roots).with_no_client_auth())
        .https_only()
        .enable_http1()
        .build();
    let client: Client<_, Full<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let port = plane.http_addr().port();
    // Clients that say nothing keep nobody waiting.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(plane.http_addr()).await.unwrap());
    }
    let answer = client.get(format!("https://localhost:{port}/livez").parse().unwrap());
    let answer = tokio::time::timeout(std::time::Duration::from_secs(5), answer).await.expect("no waiting for the silent").unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("strict-transport-security"));

    let ca = tonic::transport::Certificate::from_pem(std::fs::read(file("certificate.pem")).unwrap());
    let tls = tonic::transport::ClientTlsConfig::new().ca_certificate(ca).domain_name("localhost");
    let agents = tonic::transport::Endpoint::from_shared(format!("https://{}", plane.grpc_addr())).unwrap();
    agents.tls_config(tls).unwrap().connect().await.unwrap();
    plane.shutdown().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let mut settings = Settings::new("postgres://nobody@127.0.0.1:1/none");
    for (certificate, key, named) in [("missing.pem", "key.pem", "missing.pem"), ("certificate.pem", "certificate.pem", "certificate.pem")]
    {
        settings.tls = Some(TlsFiles { certificate: file(certificate), key: file(key) });
        let error = ControlPlane::start(settings.clone()).await.err().unwrap().to_string();
        assert!(error.contains(named), "{error}");
    }
}
