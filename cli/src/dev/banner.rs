//! What `weir dev` says when everything runs.

use std::path::Path;

use owo_colors::{OwoColorize as _, Stream};

use super::servers::Servers;
use super::tokens::Tokens;
use crate::args::Dev;
use crate::output;

/// Prints where to look and what to type.
pub(super) fn print(dev: &Dev, data: &Path, servers: &Servers, link: &str, tokens: &Tokens) {
    let gateway = format!("http://127.0.0.1:{}", dev.gateway_port);
    let heading = |text: &str| output::line(format_args!("\n{}", text.if_supports_color(Stream::Stdout, |t| t.bold())));
    heading("Weir is running.");
    row("dashboard", link);
    row("admin API", &format!("http://127.0.0.1:{}/v1 (reference: /docs, once signed in)", dev.http_port));
    row("agents", &dev.agent_ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect::<Vec<_>>().join(", "));
    row("demo gateway", &gateway);
    for shard in &servers.shards {
        row(&shard.name, &shard.address);
    }
    row("data, log", &format!("{}, {}", data.display(), data.join("weir.log").display()));
    heading("For this shell (an admin's token):");
    output::line(format_args!("  export WEIR_URL=http://127.0.0.1:{} WEIR_TOKEN={}", dev.http_port, tokens.admin));
    heading("An allowed request, then one that is refused (5 uploads a minute):");
    output::line(format_args!("  curl -i {gateway}/api/search -H 'X-User-Id: ada'"));
    output::line(format_args!(
        "  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{{http_code}}\\n' -X POST {gateway}/api/upload -H 'X-User-Id: ada'; done"
    ));
    output::line(format_args!("  curl -i -X POST {gateway}/api/upload -H 'X-User-Id: ada'"));
    heading("The same question asked of an agent:");
    let agent = dev.agent_ports.first().copied().unwrap_or_default();
    output::line(format_args!(
        "  curl -s http://127.0.0.1:{agent}/v1/check -H 'content-type: application/json' \\\n    -d '{{\"subject\":\"user:ada\",\"tier\":\"free\",\"method\":\"POST\",\"path\":\"/api/upload\"}}'"
    ));
    if !dev.traffic {
        heading("Nothing on the dashboard yet? Start with --traffic for a believable mix of users and abusers.");
    }
    output::line("\nCtrl-C stops everything.");
}

fn row(name: &str, value: &str) {
    output::line(format_args!("  {name:<14}{value}"));
}
