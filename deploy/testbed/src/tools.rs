//! Finds server programs: those of the system first, then those that `scripts/setup.sh` put into `.tools/` from PyPI wheels.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Folder with programs fetched by `make setup`; overrides looking for `.tools` in the working folder and above.
const TOOLS_DIR: &str = "WEIR_TOOLS_DIR";
/// `wheels`: use nothing of the system, only what `make setup` fetched.
const TOOLS_ONLY: &str = "WEIR_TOOLS_ONLY";
/// The oldest Postgres whose SQL we speak.
const OLDEST_POSTGRES: u32 = 15;

/// An installation of Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostgresPrograms {
    pub(crate) bin: PathBuf,
    pub(crate) major: u32,
}

/// The newest Postgres of the machine, or the one with the major version that a data folder was made by.
pub(crate) fn postgres(wanted: Option<u32>) -> Result<PostgresPrograms, Error> {
    let suitable = |found: &PostgresPrograms| found.major >= OLDEST_POSTGRES && wanted.is_none_or(|wanted| found.major == wanted);
    let program = wanted
        .map_or_else(|| format!("Postgres {OLDEST_POSTGRES} or newer"), |major| format!("Postgres {major} (which made the data folder)"));
    let (system, fetched) = (postgres_folders(), tools().map(|tools| tools.join("postgres/bin")));
    let looked_in = listed(system.iter().chain(&fetched));
    let installations =
        |folders: Vec<PathBuf>| folders.into_iter().filter_map(|bin| installation(&bin)).filter(suitable).max_by_key(|found| found.major);
    installations(system).or_else(|| installations(fetched.into_iter().collect())).ok_or(Error::NotFound { program, looked_in })
}

/// A Chromium for browser tests: of the system, else the one that `make setup-tests` fetched.
///
/// # Errors
/// There is none.
pub fn chromium() -> Result<PathBuf, Error> {
    ["chromium", "google-chrome"].iter().find_map(|name| system_program(name)).map_or_else(|| program("chromium"), Ok)
}

/// The first program of this name on the system, else in `.tools/bin`.
pub(crate) fn program(name: &str) -> Result<PathBuf, Error> {
    let looked_in = path_folders().into_iter().chain(fetched_folder()).collect::<Vec<_>>();
    system_program(name)
        .or_else(|| fetched_program(name))
        .ok_or_else(|| Error::NotFound { program: name.to_owned(), looked_in: listed(looked_in.iter()) })
}

/// The first program of this name in PATH.
pub(crate) fn system_program(name: &str) -> Option<PathBuf> {
    path_folders().iter().find_map(|folder| program_in(folder, name))
}

/// The program of this name that `make setup` fetched.
pub(crate) fn fetched_program(name: &str) -> Option<PathBuf> {
    program_in(&fetched_folder()?, name)
}

/// The folder's path is freed of links, as another user may not be able to follow them; the name stays, since Redis acts by the name it is called by.
fn program_in(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.canonicalize().ok()?.join(name)).filter(|path| is_program(path))
}

/// Folders of the system that may hold a Postgres.
fn postgres_folders() -> Vec<PathBuf> {
    if only_fetched() {
        return Vec::new();
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    // A link in PATH points into an installation, which finds its other files beside the program itself.
    let linked = path_folders().into_iter().filter_map(|folder| Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_owned()));
    debian.chain(linked).collect()
}

fn installation(bin: &Path) -> Option<PostgresPrograms> {
    if !is_program(&bin.join("initdb")) {
        return None;
    }
    let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    Some(PostgresPrograms { bin: bin.to_owned(), major: major(&String::from_utf8_lossy(&output.stdout))? })
}

/// 18 from "postgres (PostgreSQL) 18.6" or "18".
pub(crate) fn major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// PATH, without `.tools/bin`, which the Makefile puts there.
fn path_folders() -> Vec<PathBuf> {
    if only_fetched() {
        return Vec::new();
    }
    let fetched = fetched_folder();
    let of_system = |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| Some(folder) != fetched);
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).filter(of_system).collect()).unwrap_or_default()
}

fn only_fetched() -> bool {
    std::env::var_os(TOOLS_ONLY).is_some_and(|value| value == "wheels")
}

fn fetched_folder() -> Option<PathBuf> {
    tools().and_then(|tools| tools.join("bin").canonicalize().ok())
}

/// `.tools` of the checkout we run in.
fn tools() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(TOOLS_DIR) {
        return Some(PathBuf::from(given));
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().find_map(|folder| folder.join(".tools").canonicalize().ok())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn listed<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> String {
    let names: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
    if names.is_empty() { "no folder at all".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_major_versions() {
        assert_eq!(major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(major("18\n"), Some(18));
        assert_eq!(major("postgres"), None);
    }

    #[test]
    fn finds_a_browser() {
        assert!(is_program(&chromium().expect("make setup-tests gets one")));
    }

    #[test]
    fn says_where_it_looked() {
        let error = program("no-such-server").expect_err("there is no such program").to_string();
        assert!(error.starts_with("no-such-server not found: looked in /"), "{error}");
        assert!(error.ends_with("`make setup` gets it"), "{error}");
    }

    #[test]
    fn insists_on_the_version_that_made_the_data() {
        let error = postgres(Some(7)).expect_err("nobody has Postgres 7").to_string();
        assert!(error.contains("Postgres 7 (which made the data folder)"), "{error}");
    }
}
