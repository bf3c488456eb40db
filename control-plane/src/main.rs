//! `weir-control-plane`: the control plane as a process of its own.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use secrecy::ExposeSecret as _;
use weir_control_plane::auth::Role;
use weir_control_plane::settings::Written;
use weir_control_plane::{ControlPlane, NewToken, TokenKind, bootstrap, http};

/// The Weir control plane: admin API, dashboard, and the agents' stream.
///
/// Settings come from the environment (WEIR_DATABASE_URL, WEIR_HTTP_LISTEN, WEIR_GRPC_LISTEN, WEIR_PUBLIC_URL, WEIR_TLS_CERT,
/// WEIR_TLS_KEY, WEIR_WEBHOOK_ALLOW, ...), a TOML file with the same names, and flags.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A TOML file with settings.
    #[arg(long, global = true, env = "WEIR_CONFIG")]
    config: Option<PathBuf>,
    /// Where dashboard and admin API listen (default 127.0.0.1:7070).
    #[arg(long, global = true)]
    http_listen: Option<String>,
    /// Where agents connect (default 127.0.0.1:7071).
    #[arg(long, global = true)]
    grpc_listen: Option<String>,
    /// The dashboard's address as people reach it.
    #[arg(long, global = true)]
    public_url: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Serve (the default).
    Run,
    /// Print the description of the admin API (OpenAPI 3.1).
    Openapi,
    /// Make a token directly in the database, for the first one.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a link that signs its first user in as admin, within ten minutes.
    SignInLink,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    /// Make a token and print it; it is not shown again.
    Create {
        /// Its name, unique among tokens.
        #[arg(long)]
        name: weir_core::name::Name,
        /// What it is for: api or agent.
        #[arg(long, default_value = "api")]
        kind: TokenKind,
        /// What it may do: viewer, operator or admin (default admin; not for agents).
        #[arg(long)]
        role: Option<Role>,
        /// A domain it is for; may be repeated (default: all).
        #[arg(long = "domain")]
        domains: Vec<weir_core::name::Name>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| "info,sqlx=warn,memory_serve=warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    if let Some(Command::Openapi) = arguments.command {
        print(&http::router::description().to_pretty_json()?);
        return Ok(());
    }
    let flags = Written {
        http_listen: arguments.http_listen,
        grpc_listen: arguments.grpc_listen,
        public_url: arguments.public_url,
        ..Written::default()
    };
    let settings = Written::load(arguments.config.as_deref())?.overridden_by(flags).check()?;
    match arguments.command {
        Some(Command::Token(TokenCommand::Create { name, kind, role, domains })) => {
            let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
            let role = role.or((kind == TokenKind::Api).then_some(Role::Admin));
            anyhow::ensure!(kind == TokenKind::Api || role.is_none(), "a token of an agent has no role");
            let domains = Some(domains).filter(|domains| !domains.is_empty());
            let new = NewToken { name: name.to_string(), kind, role, domains, expires_at: None, created_by: "command line".to_owned() };
            print(bootstrap::token(&settings, &new).await?.expose_secret());
        }
        Some(Command::SignInLink) => print(&bootstrap::sign_in_link(settings).await?),
        _ => {
            let control_plane = ControlPlane::start(settings).await?;
            stop_signal().await?;
            tracing::info!("stopping: requests under way are finished");
            control_plane.shutdown().await;
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the answer of a command")]
fn print(text: &str) {
    println!("{text}");
}

/// Waits for SIGTERM or Ctrl-C.
async fn stop_signal() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}
