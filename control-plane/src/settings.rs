//! What an operator sets: environment, a TOML file, flags; each may override the one before. All mistakes are reported together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use weir_core::client_ip::{self, SourceHeader};
use weir_core::mistake::place;
use weir_core::span::Span;

use crate::alerts::target::AllowList;

/// Where dashboard and admin API listen by default.
pub const HTTP_LISTEN: &str = "127.0.0.1:7070";
/// Where agents connect by default.
pub const GRPC_LISTEN: &str = "127.0.0.1:7071";
const DATABASE_CONNECTIONS: u32 = 10;
const AGENTS_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// Settings of a control plane, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the database, `postgres://user:password@host/name` (`WEIR_DATABASE_URL`, else `DATABASE_URL`).
    pub database_url: SecretString,
    /// Most database connections at a time, 2 to 500 (`WEIR_DATABASE_CONNECTIONS`, default 10).
    pub database_connections: u32,
    /// Where dashboard and admin API listen (`WEIR_HTTP_LISTEN`, default `127.0.0.1:7070`).
    pub http_listen: SocketAddr,
    /// Where agents connect (`WEIR_GRPC_LISTEN`, default `127.0.0.1:7071`).
    pub grpc_listen: SocketAddr,
    /// The dashboard's address as people reach it (`WEIR_PUBLIC_URL`, default `http://` or `https://` and the address listened on).
    pub public_url: Option<String>,
    /// Certificate and key for both listeners (`WEIR_TLS_CERT`, `WEIR_TLS_KEY`: PEM files; default none).
    pub tls: Option<TlsFiles>,
    /// Where webhooks may go: `host`, `host:port` or CIDR (`WEIR_WEBHOOK_ALLOW`, comma-separated, default none).
    pub webhook_allow: Vec<String>,
    /// How long an agent that is away is remembered (`WEIR_AGENTS_KEPT`, from `1m` to `366d`, default `24h`).
    pub agents_kept: Duration,
    /// Proxies whose word on the client's address counts: addresses or CIDRs (`WEIR_TRUSTED_PROXIES`, comma-separated, default none).
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they say it: `x-forwarded-for`, `x-real-ip` or `forwarded` (`WEIR_CLIENT_IP_HEADER`, default `x-forwarded-for`).
    pub client_ip_header: SourceHeader,
}

/// PEM files of a certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Settings {
    /// Settings with that database and free ports of the loopback interface.
    #[must_use]
    pub fn new(database_url: impl Into<String>) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            database_url: SecretString::from(database_url.into()),
            database_connections: DATABASE_CONNECTIONS,
            http_listen: loopback,
            grpc_listen: loopback,
            public_url: None,
            tls: None,
            webhook_allow: Vec::new(),
            agents_kept: AGENTS_KEPT,
            trusted_proxies: Vec::new(),
            client_ip_header: SourceHeader::XForwardedFor,
        }
    }

    /// The dashboard's address as people reach it, when it listens on `address`; no slash at the end.
    #[must_use]
    pub fn base_url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        url.trim_end_matches('/').to_owned()
    }
}

/// Settings as they are written: every field may be absent. A TOML file has the same names; so have the environment variables, in
/// capitals and with `WEIR_` before.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// See [`Settings::database_url`].
    pub database_url: Option<SecretString>,
    /// See [`Settings::database_connections`].
    pub database_connections: Option<u32>,
    /// See [`Settings::http_listen`].
    pub http_listen: Option<String>,
    /// See [`Settings::grpc_listen`].
    pub grpc_listen: Option<String>,
    /// See [`Settings::public_url`].
    pub public_url: Option<String>,
    /// See [`TlsFiles::certificate`].
    pub tls_cert: Option<PathBuf>,
    /// See [`TlsFiles::key`].
    pub tls_key: Option<PathBuf>,
    /// Listen beyond the loopback interface without TLS: only behind a proxy that adds it (`WEIR_ALLOW_PLAINTEXT`, default false).
    pub allow_plaintext: Option<bool>,
    /// See [`Settings::webhook_allow`].
    pub webhook_allow: Option<String>,
    /// See [`Settings::agents_kept`].
    pub agents_kept: Option<String>,
    /// See [`Settings::trusted_proxies`].
    pub trusted_proxies: Option<String>,
    /// See [`Settings::client_ip_header`].
    pub client_ip_header: Option<String>,
}

/// Everything that is wrong with the settings, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the settings have mistakes:\n  {}", .0.join("\n  "))]
pub struct SettingsError(pub Vec<String>);

impl Written {
    /// Reads a TOML file, if one is given, and then the environment.
    ///
    /// # Errors
    /// The file is not there or not TOML, a name is unknown, a value has the wrong type.
    pub fn load(file: Option<&Path>) -> Result<Self, SettingsError> {
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(toml_file(file).map_err(|mistake| SettingsError(vec![mistake]))?);
        }
        let known: std::collections::HashMap<String, String> = std::env::vars().filter(|(name, _)| is_ours(name)).collect();
        let environment = config::Environment::with_prefix("WEIR").prefix_separator("_").try_parsing(true).source(Some(known));
        let mut read: Self = builder
            .add_source(environment)
            .build()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| SettingsError(vec![error.to_string()]))?;
        if read.database_url.is_none() {
            read.database_url = std::env::var("DATABASE_URL").ok().map(SecretString::from);
        }
        Ok(read)
    }

    /// `self`, with what `over` says itself in its place.
    #[must_use]
    pub fn overridden_by(self, over: Self) -> Self {
        Self {
            database_url: over.database_url.or(self.database_url),
            database_connections: over.database_connections.or(self.database_connections),
            http_listen: over.http_listen.or(self.http_listen),
            grpc_listen: over.grpc_listen.or(self.grpc_listen),
            public_url: over.public_url.or(self.public_url),
            tls_cert: over.tls_cert.or(self.tls_cert),
            tls_key: over.tls_key.or(self.tls_key),
            allow_plaintext: over.allow_plaintext.or(self.allow_plaintext),
            webhook_allow: over.webhook_allow.or(self.webhook_allow),
            agents_kept: over.agents_kept.or(self.agents_kept),
            trusted_proxies: over.trusted_proxies.or(self.trusted_proxies),
            client_ip_header: over.client_ip_header.or(self.client_ip_header),
        }
    }

    /// Checks everything.
    ///
    /// # Errors
    /// All mistakes together.
    pub fn check(self) -> Result<Settings, SettingsError> {
        let mut mistakes = Vec::new();
        let http_listen = address("http_listen", self.http_listen.as_deref().unwrap_or(HTTP_LISTEN), &mut mistakes);
        let grpc_listen = address("grpc_listen", self.grpc_listen.as_deref().unwrap_or(GRPC_LISTEN), &mut mistakes);
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => {
                mistakes.push("tls_cert and tls_key: give both or neither".to_owned());
                None
            }
        };
        let open = [("http_listen", http_listen), ("grpc_listen", grpc_listen)]
            .into_iter()
            .filter(|(_, a)| a.is_some_and(|a| !a.ip().is_loopback()));
        if tls.is_none() && self.allow_plaintext != Some(true) {
            mistakes.extend(open.map(|(name, _)| {
                format!("{name}: beyond the loopback interface it needs TLS (tls_cert, tls_key), or allow_plaintext = true behind a proxy that adds it")
            }));
        }
        let database_connections = self.database_connections.unwrap_or(DATABASE_CONNECTIONS);
        if !(2..=500).contains(&database_connections) {
            mistakes.push("database_connections: must be from 2 to 500".to_owned());
        }
        let database_url = self.database_url.unwrap_or_default();
        if !["postgres://", "postgresql://"].iter().any(|scheme| database_url.expose_secret().starts_with(scheme)) {
            mistakes.push("database_url: must be postgres://user:password@host/name (WEIR_DATABASE_URL or DATABASE_URL)".to_owned());
        }
        if self.public_url.as_deref().is_some_and(|url| !is_base_url(url)) {
            mistakes.push("public_url: must be http://host or https://host, with a port if need be, without a path".to_owned());
        }
        let webhook_allow: Vec<String> = entries(self.webhook_allow.as_deref()).map(str::to_owned).collect();
        if let Err(error) = AllowList::new(webhook_allow.iter().map(String::as_str)) {
            mistakes.push(format!("webhook_allow: {error}"));
        }
        let agents_kept = length("agents_kept", self.agents_kept.as_deref(), AGENTS_KEPT, &mut mistakes);
        let trusted_proxies = proxies(self.trusted_proxies.as_deref(), &mut mistakes);
        let client_ip_header = source_header(self.client_ip_header.as_deref(), &mut mistakes);
        match (http_listen, grpc_listen) {
            (Some(http_listen), Some(grpc_listen)) if mistakes.is_empty() => Ok(Settings {
                database_url,
                database_connections,
                http_listen,
                grpc_listen,
                public_url: self.public_url,
                tls,
                webhook_allow,
                agents_kept,
                trusted_proxies,
                client_ip_header,
            }),
            _ => Err(SettingsError(mistakes)),
        }
    }
}

/// A TOML file as a source. What is wrong with its form is said with the place and without the text there, which may be a secret.
fn toml_file(file: &Path) -> Result<config::Config, String> {
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| in_file(&error))?;
    let source = config::File::from_str(&text, config::FileFormat::Toml);
    config::Config::builder().add_source(source).build().map_err(|error| in_file(&without_text(&error, &text)))
}

fn without_text(error: &config::ConfigError, text: &str) -> String {
    let config::ConfigError::FileParse { cause, .. } = error else { return error.to_string() };
    let Some(cause) = cause.downcast_ref::<toml::de::Error>() else { return "is not TOML".to_owned() };
    let place = cause.span().map(|span| place(text, span.start)).unwrap_or_default();
    format!("is not TOML: {place}{}", cause.message())
}

/// The variables that are settings of the control plane; others with the same prefix are of the CLI or of agents.
fn is_ours(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "DATABASE_URL",
        "DATABASE_CONNECTIONS",
        "HTTP_LISTEN",
        "GRPC_LISTEN",
        "PUBLIC_URL",
        "TLS_CERT",
        "TLS_KEY",
        "ALLOW_PLAINTEXT",
        "WEBHOOK_ALLOW",
        "AGENTS_KEPT",
        "TRUSTED_PROXIES",
        "CLIENT_IP_HEADER",
    ];
    name.strip_prefix("WEIR_").is_some_and(|rest| NAMES.contains(&rest))
}

/// The entries of a comma-separated list.
fn entries(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn proxies(list: Option<&str>, mistakes: &mut Vec<String>) -> Vec<IpNet> {
    let mut proxies = Vec::new();
    for entry in entries(list) {
        match client_ip::network(entry) {
            Ok(network) => proxies.push(network),
            Err(error) => mistakes.push(format!("trusted_proxies: {entry:?} {error}")),
        }
    }
    proxies
}

fn source_header(text: Option<&str>, mistakes: &mut Vec<String>) -> SourceHeader {
    match text {
        None | Some("x-forwarded-for") => SourceHeader::XForwardedFor,
        Some("x-real-ip") => SourceHeader::XRealIp,
        Some("forwarded") => SourceHeader::Forwarded,
        Some(other) => {
            mistakes.push(format!("client_ip_header: must be x-forwarded-for, x-real-ip or forwarded, not {other:?}"));
            SourceHeader::None
        }
    }
}

/// A length of time from a minute to 366 days.
fn length(name: &str, text: Option<&str>, default: Duration, mistakes: &mut Vec<String>) -> Duration {
    let Some(text) = text else { return default };
    let length = text.parse::<Span>().ok().map(Span::as_duration);
    length.filter(|length| (AGENTS_KEPT / 1_440..=AGENTS_KEPT * 366).contains(length)).unwrap_or_else(|| {
        mistakes.push(format!("{name}: {text:?} is not a length of time from 1m to 366d"));
        default
    })
}

fn address(name: &str, text: &str, mistakes: &mut Vec<String>) -> Option<SocketAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        mistakes.push(format!("{name}: {text:?} is not an address such as 127.0.0.1:7070"));
    }
    address
}

fn is_base_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let scheme = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
    let host = uri.authority().is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    scheme && host && uri.path() == "/" && uri.query().is_none() && !text.contains('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Written {
        Written { database_url: Some(SecretString::from("postgres://db/weir")), ..Written::default() }
    }

    #[test]
    fn the_defaults_listen_on_loopback_only() {
        let settings = written().check().unwrap();
        assert_eq!(settings.http_listen.to_string(), HTTP_LISTEN);
        assert_eq!(settings.grpc_listen.to_string(), GRPC_LISTEN);
        assert!(settings.tls.is_none() && settings.webhook_allow.is_empty());
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let mut wrong = written();
        wrong.database_url = Some(SecretString::from("mysql://user:hunter2@db/weir"));
        wrong.database_connections = Some(0);
        wrong.http_listen = Some("localhost".into());
        wrong.grpc_listen = Some("0.0.0.0:7071".into());
        wrong.tls_cert = Some("a.pem".into());
        wrong.public_url = Some("https://weir.example/path".into());
        let error = wrong.check().unwrap_err();
        assert_eq!(error.0.len(), 6, "{error}");
        assert!(!error.to_string().contains("hunter2"), "a secret is shown");
    }

    #[test]
    fn beyond_loopback_needs_tls_or_a_word_of_the_operator() {
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            let open = Written { http_listen: Some(listen.into()), ..written() };
            assert!(open.clone().check().is_err(), "{listen}");
            assert!(Written { allow_plaintext: Some(true), ..open.clone() }.check().is_ok());
            assert!(Written { tls_cert: Some("c".into()), tls_key: Some("k".into()), ..open }.check().is_ok());
        }
        assert!(Written { http_listen: Some("[::1]:1".into()), ..written() }.check().is_ok());
    }

    #[test]
    fn a_file_is_read_and_unknown_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "http_listen = \"127.0.0.1:1\"\ndatabase_connections = 7\n").unwrap();
        let read = Written::load(Some(&file)).unwrap();
        assert_eq!((read.http_listen.as_deref(), read.database_connections), (Some("127.0.0.1:1"), Some(7)));
        let over = Written { http_listen: Some("127.0.0.1:2".into()), ..Written::default() };
        assert_eq!(read.overridden_by(over).http_listen.as_deref(), Some("127.0.0.1:2"));
        std::fs::write(&file, "http_lsten = \"127.0.0.1:1\"\n").unwrap();
        assert!(Written::load(Some(&file)).unwrap_err().to_string().contains("http_lsten"));
        std::fs::write(&file, "http_listen = \"127.0.0.1:1\"\ndatabase_url = \"postgres://weir:hunter2@db/weir\n").unwrap();
        let error = Written::load(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("line 2, column") && !error.contains("hunter2"), "{error}");
        assert!(Written::load(Some(&folder.path().join("none.toml"))).unwrap_err().to_string().contains("none.toml"));
    }

    #[test]
    fn proxies_are_trusted_only_where_they_are_named() {
        assert!(written().check().unwrap().trusted_proxies.is_empty());
        let named =
            Written { trusted_proxies: Some("127.0.0.1, 10.0.0.0/8".into()), client_ip_header: Some("x-real-ip".into()), ..written() };
        let settings = named.check().unwrap();
        assert_eq!((settings.trusted_proxies.len(), settings.client_ip_header), (2, SourceHeader::XRealIp));
        let wrong = Written { trusted_proxies: Some("proxy.example".into()), client_ip_header: Some("via".into()), ..written() };
        assert_eq!(wrong.check().unwrap_err().0.len(), 2);
    }

    #[test]
    fn public_urls_are_bases() {
        for good in ["http://127.0.0.1:7070", "https://weir.example", "https://weir.example/"] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in [
            "",
            "weir.example",
            "ftp://weir.example",
            "https://u:p@weir.example",
            "https://weir.example/x",
            "https://weir.example/?q",
            "https://weir.example/#f",
        ] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
