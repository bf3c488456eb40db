//! What the CLI prints: tables, JSON, colours only where a terminal shows them.

use std::io::Write as _;
use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};
use owo_colors::{OwoColorize as _, Stream};
use serde_json::Value;

/// The error with its causes, on standard error.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{} {error:#}", "error:".if_supports_color(Stream::Stderr, |t| t.red()));
    ExitCode::FAILURE
}

/// A line on standard output.
pub(crate) fn line(text: impl std::fmt::Display) {
    print(&text);
}

/// A line on standard error: notes and warnings, so that standard output stays clean for pipes.
pub(crate) fn note(text: impl std::fmt::Display) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A line on standard output. Whoever closed it, such as `head`, has read enough: what was to be done is done, and the rest need not be
/// printed.
fn print(text: &dyn std::fmt::Display) {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: cannot write: {error}");
            std::process::exit(1)
        }
    }
}

/// A document as JSON.
pub(crate) fn json(value: &Value) {
    print(&format_args!("{value:#}"));
}

/// Rows under a header; says so when there are none.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>, empty: &str) {
    if rows.is_empty() {
        note(empty);
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for row in table.to_string().lines() {
        print(&row.trim_end());
    }
}

/// Green, red or plain by the first character of a diff line.
pub(crate) fn diff_line(text: &str) {
    match text.as_bytes().first() {
        Some(b'+') => print(&text.if_supports_color(Stream::Stdout, |t| t.green())),
        Some(b'-') => print(&text.if_supports_color(Stream::Stdout, |t| t.red())),
        Some(b'~') => print(&text.if_supports_color(Stream::Stdout, |t| t.yellow())),
        _ => print(&text),
    }
}
