//! A rules file: read at the start, and again whenever it changes.
//!
//! Editors and configuration managers replace files by renaming, Kubernetes by swapping a symbolic link, so the folder is watched, not the
//! file; and since not every file system tells, the file's identity is looked at every second as well.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_core::config::DomainConfig;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

use super::apply::Applier;
use super::store::Origin;

/// The largest rules file that is read.
const MAX_BYTES: u64 = 64 << 20;
/// Several writes in quick succession are one change.
const SETTLE: Duration = Duration::from_millis(50);
/// How often the file is looked at without being told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a rules file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// Its content is wrong.
    #[error("{0} is not valid:\n{1}")]
    Content(PathBuf, Mistakes),
}

/// Reads and validates a rules file.
///
/// # Errors
/// [`FileError`], with every mistake.
pub fn read(path: &Path) -> Result<DomainConfig, FileError> {
    let unreadable = |error| FileError::Read(path.to_owned(), error);
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_BYTES {
        return Err(unreadable(std::io::Error::other("too large")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    DomainConfig::from_yaml(&text).map_err(|mistakes| FileError::Content(path.to_owned(), mistakes))
}

/// What tells two states of a file apart without reading it: device, inode, size and time of change.
fn identity(path: &Path) -> Option<(u64, u64, u64, i64, i64)> {
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
}

/// Watches a rules file.
#[derive(Debug)]
pub struct RulesFile {
    path: PathBuf,
    domain: Name,
    applier: Arc<Applier>,
    /// What was read last; a file that was only touched is no change.
    current: DomainConfig,
    readings: u64,
}

impl RulesFile {
    /// Puts `config`, which was read from `path`, into force as the first reading.
    ///
    /// # Errors
    /// [`FileError::Content`].
    pub fn start(path: PathBuf, config: DomainConfig, applier: Arc<Applier>) -> Result<Self, FileError> {
        let refused = |refusal: super::apply::Refusal| {
            let mut mistakes = Mistakes::new();
            mistakes.add("", refusal.to_string());
            FileError::Content(path.clone(), mistakes)
        };
        applier.config(&config, 1, Origin::File).map_err(refused)?;
        Ok(Self { path, domain: config.domain.name.clone(), applier, current: config, readings: 1 })
    }

    /// Follows the file until `stop`. While it is bad or missing, the last good rules stay, and the store says why.
    pub async fn follow(mut self, stop: CancellationToken) {
        let changed = Arc::new(Notify::new());
        let watcher = self.watch(&changed).inspect_err(|error| tracing::warn!(%error, "watching by looking only")).ok();
        let mut seen = identity(&self.path);
        // The file may have changed between the first reading and now.
        let mut is_new = true;
        loop {
            if is_new {
                // Rules may take longer to compile than a check may take to be answered.
                let reading = tokio::task::spawn_blocking(move || {
                    self.read_again();
                    self
                });
                match reading.await {
                    Ok(read) => self = read,
                    Err(error) => return tracing::error!(%error, "the rules file is no longer followed"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = changed.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = identity(&self.path);
            is_new = now != seen;
            seen = now;
        }
        drop(watcher);
    }

    fn watch(&self, changed: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
        let changed = changed.clone();
        let mut watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| changed.notify_one())?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    fn read_again(&mut self) {
        if let Err(why) = self.try_read() {
            let why = why.replace('\n', "; ");
            tracing::warn!(why, "the rules file is not used; the last good rules stay");
            self.applier.store().rules_refused(&self.domain, why);
        }
    }

    fn try_read(&mut self) -> Result<(), String> {
        let config = read(&self.path).map_err(|error| error.to_string())?;
        if config.domain.name != self.domain {
            return Err(format!("the file is about domain {} now; this agent was started for {}", config.domain.name, self.domain));
        }
        let was_refused = self.applier.store().domain(self.domain.as_str()).is_some_and(|state| state.refused.is_some());
        if config == self.current && !was_refused {
            return Ok(());
        }
        self.applier.config(&config, self.readings + 1, Origin::File).map_err(|refusal| refusal.to_string())?;
        self.readings += 1;
        self.current = config;
        Ok(())
    }
}
