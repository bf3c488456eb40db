//! The tokens of `weir dev`: made once, kept beside the data, so that agents and shells survive a restart.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use weir_control_plane::ControlPlane;
use weir_control_plane::auth::Role;
use weir_control_plane::{NewToken, TokenKind};

use crate::client::Client;

/// An admin's and the agents' token.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Of role `admin`.
    pub(super) admin: String,
    /// Of kind `agent`, for all domains.
    pub(super) agent: String,
}

impl Tokens {
    /// Those of the last run if the control plane still takes them, else new ones.
    pub(super) async fn get(control_plane: &ControlPlane, url: &str, data: &Path) -> anyhow::Result<Self> {
        let file = data.join("tokens.json");
        if let Ok(text) = std::fs::read(&file)
            && let Ok(tokens) = serde_json::from_slice::<Self>(&text)
            && Client::with_token(url, tokens.admin.clone())?.get("/v1/tokens", &[]).await.is_ok()
        {
            return Ok(tokens);
        }
        let tokens = Self {
            admin: make(control_plane, "admin", TokenKind::Api).await?,
            agent: make(control_plane, "agents", TokenKind::Agent).await?,
        };
        tokens.write(&file).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(tokens)
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        // Made with this mode, never widened for a moment.
        let mut out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
        out.write_all(&serde_json::to_vec_pretty(self)?)?;
        Ok(())
    }
}

/// Names are never used twice: a token of an earlier run may still have the plain one.
async fn make(control_plane: &ControlPlane, what: &str, kind: TokenKind) -> anyhow::Result<String> {
    let new = NewToken {
        name: format!("weir-dev-{what}-{:08x}", rand::random::<u32>()),
        role: matches!(kind, TokenKind::Api).then_some(Role::Admin),
        kind,
        domains: None,
        expires_at: None,
        created_by: "weir-dev".to_owned(),
    };
    Ok(control_plane.create_token(&new).await?.expose_secret().to_owned())
}
