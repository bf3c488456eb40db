//! The tokens of `weir dev`: made once, kept beside the data, so that agents and shells survive a restart.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use weir_control_plane::ControlPlane;
use weir_control_plane::auth::Role;
use weir_control_plane::db::token;
use weir_control_plane::{NewToken, TokenKind};

/// An admin's and the agents' token.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Of role `admin`.
    pub(super) admin: String,
    /// Of kind `agent`, for all domains.
    pub(super) agent: String,
}

impl Tokens {
    /// Those of the last run that the control plane still takes, and new ones for the others.
    pub(super) async fn get(control_plane: &ControlPlane, data: &Path) -> anyhow::Result<Self> {
        let file = data.join("tokens.json");
        let old: Option<Self> = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let (admin, agent) = old.map(|old| (old.admin, old.agent)).unzip();
        let tokens = Self {
            admin: good_or_new(control_plane, admin, "admin", TokenKind::Api).await?,
            agent: good_or_new(control_plane, agent, "agents", TokenKind::Agent).await?,
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

async fn good_or_new(control_plane: &ControlPlane, old: Option<String>, what: &str, kind: TokenKind) -> anyhow::Result<String> {
    if let Some(old) = old {
        let found = token::find(&mut *control_plane.app().pool.acquire().await?, &old).await?;
        if found.is_some_and(|found| found.kind == kind && found.role == role(kind)) {
            return Ok(old);
        }
    }
    make(control_plane, what, kind).await
}

fn role(kind: TokenKind) -> Option<Role> {
    (kind == TokenKind::Api).then_some(Role::Admin)
}

/// Names are never used twice: a token of an earlier run may still have the plain one.
async fn make(control_plane: &ControlPlane, what: &str, kind: TokenKind) -> anyhow::Result<String> {
    let new = NewToken {
        name: format!("weir-dev-{what}-{:08x}", rand::random::<u32>()),
        role: role(kind),
        kind,
        domains: None,
        expires_at: None,
        created_by: "weir-dev".to_owned(),
    };
    Ok(control_plane.create_token(&new).await?.expose_secret().to_owned())
}
