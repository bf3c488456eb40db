//! Makes data folders. `initdb` takes half a second of a core; a temporary server's data is copied from a template instead, made once per machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::USER;
use crate::child::Child;
use crate::error::{Doing, Error};
use crate::folder::Folder;
use crate::owner::Owner;
use crate::program::{Program, log_tail};
use crate::tools::PostgresPrograms;

/// Puts fresh data and its password into the folder.
pub(super) async fn prepare(programs: &PostgresPrograms, folder: &Folder, owner: Option<Owner>, lasting: bool) -> Result<(), Error> {
    if lasting {
        return initialise(programs, folder, owner).await;
    }
    let template = template(programs, owner).await?;
    let log = folder.join("copy.log");
    let copy = Program::new("cp", &log)
        .args(["-a", "--reflink=auto"])
        .args(["data", "password"].map(|name| template.join(name)))
        .arg(folder.path());
    succeed(copy, &log).await
}

/// The template, locked for us; made by whoever comes first.
async fn template(programs: &PostgresPrograms, owner: Option<Owner>) -> Result<Folder, Error> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let program = programs.bin.join("postgres");
    let version = fs::metadata(&program).doing(|| format!("look at {}", program.display()))?;
    let user = nix::unistd::geteuid();
    // A new build of the same major version makes its own.
    let name = format!("weir-postgres-{user}-{}-{:x}-{:x}", programs.major, version.ino(), version.mtime());
    let start = Instant::now();
    let folder = loop {
        match Folder::shared(&name, owner) {
            Err(Error::InUse { .. }) if start.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(10)).await,
            outcome => break outcome?,
        }
    };
    if !folder.join("data").exists() {
        initialise(programs, &folder, owner).await?;
    }
    Ok(folder)
}

/// Runs `initdb`. The data gets its name only when complete, so that an interrupted start leaves nothing that looks like data.
async fn initialise(programs: &PostgresPrograms, folder: &Folder, owner: Option<Owner>) -> Result<(), Error> {
    let password: String = (0..32).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect();
    let password = folder.write("password", &password)?;
    let unfinished = folder.join("data.unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    let unfinished = folder.place("data.unfinished")?;
    let log = folder.join("initdb.log");
    let program = Program::new(programs.bin.join("initdb"), &log)
        .owner(owner)
        .env("LC_ALL", "C")
        .args(["--username", USER, "--encoding", "UTF8", "--locale", "C", "--auth-local", "trust", "--auth-host", "scram-sha-256"])
        // Without waiting for the disk: there is nothing yet that a power cut could lose.
        .args(["--no-sync", "--no-instructions", "--pwfile"])
        .arg(password)
        .arg("--pgdata")
        .arg(&unfinished);
    succeed(program, &log).await?;
    fs::rename(&unfinished, folder.join("data")).doing(|| format!("rename {}", unfinished.display()))
}

/// Runs a program that ends by itself.
async fn succeed(program: Program, log: &Path) -> Result<(), Error> {
    let status = Child::spawn(&program)?.wait().await;
    if status.success() { Ok(()) } else { Err(Error::Failed { program: program.name(), reason: status.to_string(), log: log_tail(log) }) }
}
