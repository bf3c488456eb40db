//! Folders for servers: temporary ones that go away by themselves, and lasting ones, which the servers' user must be able to reach.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::error::{Doing, Error};
use crate::owner::Owner;

const PREFIX: &str = "weir-testbed-";
/// In a lasting folder whose data had to go elsewhere: a file that says where.
const POINTER: &str = "elsewhere";
const LOCK: &str = "lock";
/// Seconds after which an unlocked temporary folder counts as left behind (a younger one may just not be locked yet).
const LEFT_BEHIND: i64 = 60;

/// A folder locked for this process: `log` and settings in it are ours, [`place`](Self::place) makes the parts that belong to the server's user.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    owner: Option<Owner>,
    _lock: File,
    /// Removes the folder when dropped, after the server in it has ended.
    _temporary: Option<TempDir>,
}

impl Folder {
    /// A new folder that is removed with this value. What killed processes left behind is removed by the next one that comes here.
    pub(crate) fn temporary(owner: Option<Owner>) -> Result<Self, Error> {
        let base = temporary_base(owner);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base).doing(|| format!("make a folder in {}", base.display()))?;
        open_up(made.path(), owner)?;
        let lock = lock(made.path())?;
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| sweep(&base, made.path()));
        Ok(Self { path: made.path().to_owned(), owner, _lock: lock, _temporary: Some(made) })
    }

    /// A folder that stays, at `wanted`; or, when the servers' user cannot reach that, under /var/lib (or /tmp) with a pointer file left at `wanted`.
    pub(crate) fn lasting(wanted: &Path, owner: Option<Owner>) -> Result<Self, Error> {
        make(wanted, 0o711)?;
        let wanted = wanted.canonicalize().doing(|| format!("find {}", wanted.display()))?;
        let path = match owner {
            Some(owner) if !owner.reaches(&wanted) => elsewhere(&wanted, owner)?,
            _ => wanted,
        };
        let lock = lock(&path)?;
        Ok(Self { path, owner, _lock: lock, _temporary: None })
    }

    /// A folder of this name among the temporary ones, which stays, for use by one process at a time.
    ///
    /// Others can write where temporary folders are, so one that is not ours alone is refused.
    pub(crate) fn shared(name: &str, owner: Option<Owner>) -> Result<Self, Error> {
        let path = temporary_base(owner).join(name);
        if DirBuilder::new().mode(0o700).create(&path).is_ok() {
            open_up(&path, owner)?;
        }
        let found = fs::symlink_metadata(&path).doing(|| format!("look at {}", path.display()))?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is not ours alone")).doing(|| format!("use {}", path.display()));
        }
        let lock = lock(&path)?;
        Ok(Self { path, owner, _lock: lock, _temporary: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a subfolder that only the server's user may enter.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.join(name);
        make(&path, 0o700)?;
        self.give(&path)?;
        Ok(path)
    }

    /// Writes a file that only the server's user may read.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        use std::io::Write;
        let path = self.join(name);
        let write = || OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path)?.write_all(content.as_bytes());
        write().doing(|| format!("write {}", path.display()))?;
        self.give(&path)?;
        Ok(path)
    }

    fn give(&self, path: &Path) -> Result<(), Error> {
        self.owner.map_or(Ok(()), |owner| owner.give(path))
    }
}

/// Where temporary folders go: the system's choice, or /tmp when the servers' user cannot reach that, or a socket's path there would be too long.
fn temporary_base(owner: Option<Owner>) -> PathBuf {
    const LONGEST: usize = 60;
    let usual = std::env::temp_dir();
    let fits = usual.as_os_str().len() <= LONGEST && owner.is_none_or(|owner| owner.reaches(&usual));
    if fits { usual } else { PathBuf::from("/tmp") }
}

fn make(path: &Path, mode: u32) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(mode).create(path).doing(|| format!("make the folder {}", path.display()))
}

/// Lets the servers' user walk through (not list) a folder that is ours.
fn open_up(path: &Path, owner: Option<Owner>) -> Result<(), Error> {
    let mode = if owner.is_some() { 0o711 } else { 0o700 };
    fs::set_permissions(path, Permissions::from_mode(mode)).doing(|| format!("set the mode of {}", path.display()))
}

fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).doing(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(source).doing(|| format!("lock {}", path.display())),
    }
}

/// The folder that stands in for `wanted`: the one used before, else a new one.
fn elsewhere(wanted: &Path, owner: Owner) -> Result<PathBuf, Error> {
    let pointer = wanted.join(POINTER);
    if let Ok(before) = fs::read_to_string(&pointer) {
        let before = PathBuf::from(before.trim());
        if before.is_dir() {
            return Ok(before);
        }
    }
    let mut bases = ["/var/lib", "/tmp"].map(Path::new).into_iter().filter(|base| owner.reaches(base));
    let made = bases.find_map(|base| tempfile::Builder::new().prefix("weir-").tempdir_in(base).ok());
    let nowhere = || io::Error::other("neither /var/lib nor /tmp will do");
    let made = made.ok_or_else(nowhere).doing(|| format!("find a place for the data of {}", wanted.display()))?;
    open_up(made.path(), Some(owner))?;
    let path = made.keep();
    tracing::info!("the servers' user cannot reach {}: data goes to {}", wanted.display(), path.display());
    fs::write(&pointer, format!("{}\n", path.display())).doing(|| format!("write {}", pointer.display()))?;
    Ok(path)
}

/// Removes temporary folders that nobody holds a lock on any more.
fn sweep(base: &Path, ours: &Path) {
    let Ok(now) = fs::metadata(ours).map(|found| found.mtime()) else { return };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let left_behind = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|found| found.is_dir() && now - found.mtime() > LEFT_BEHIND);
        if left_behind && File::open(entry.path().join(LOCK)).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// A folder as a killed process leaves it, long ago.
    fn left_behind(base: &Path, name: &str) -> PathBuf {
        let path = base.join(name);
        fs::create_dir(&path).expect("made");
        fs::write(path.join(LOCK), "").expect("written");
        File::open(&path).and_then(|folder| folder.set_modified(SystemTime::UNIX_EPOCH)).expect("aged");
        path
    }

    #[test]
    fn sweeps_what_nobody_uses_any_more() {
        let base = tempfile::tempdir().expect("a folder");
        let ours = base.path().join("weir-testbed-ours");
        fs::create_dir(&ours).expect("made");
        let (old, used) = (left_behind(base.path(), "weir-testbed-old"), left_behind(base.path(), "weir-testbed-used"));
        let (foreign, young) = (left_behind(base.path(), "somebody-elses"), left_behind(base.path(), "weir-testbed-young"));
        File::open(&young).and_then(|folder| folder.set_modified(fs::metadata(&ours)?.modified()?)).expect("made young again");
        let user = File::open(used.join(LOCK)).expect("there");
        user.try_lock().expect("free");
        sweep(base.path(), &ours);
        assert_eq!([&old, &used, &foreign, &young, &ours].map(|path| path.exists()), [false, true, true, true, true]);
    }

    #[test]
    fn refuses_a_shared_folder_that_others_may_write_to() {
        let name = format!("weir-testbed-open-{}", std::process::id());
        let path = temporary_base(None).join(&name);
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("opened");
        let outcome = Folder::shared(&name, None);
        fs::remove_dir(&path).expect("removed");
        assert!(outcome.expect_err("refused").to_string().ends_with("it is not ours alone"));
    }

    #[test]
    fn data_goes_where_the_servers_user_can_reach_it() {
        let base = tempfile::tempdir().expect("a folder");
        fs::set_permissions(base.path(), Permissions::from_mode(0o711)).expect("opened");
        let wanted = base.path().join("pg");
        // Nobody of this id exists: it may pass where others may.
        let stranger = Some(Owner { uid: 54_321, gid: 54_321 });
        let near = Folder::lasting(&wanted, stranger).expect("made").path().to_owned();
        assert_eq!(near, wanted);
        fs::set_permissions(base.path(), Permissions::from_mode(0o700)).expect("closed");
        let away = Folder::lasting(&wanted, stranger).map(|folder| folder.path().to_owned());
        let again = Folder::lasting(&wanted, stranger).map(|folder| folder.path().to_owned());
        let away = away.expect("made elsewhere");
        assert_eq!(again.expect("the same one again"), away);
        assert!(!away.starts_with(base.path()), "{}", away.display());
        fs::remove_dir_all(away).expect("removed");
    }
}
