//! The last good rules, ring and secrets on disk, so that an agent starts and runs without its control plane.
//!
//! A file is one line `weir-state 1 <checksum>` and then JSON. It is written beside its place, flushed and renamed, so a crash leaves the old
//! one or the new one. A file that is damaged anyway is ignored, with a warning: the control plane has it too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_core::item::{Item, SetHash};

use super::ring::{Secrets, SecretsOnDisk};

/// The first words of a state file.
const MAGIC: &str = "weir-state 1";
/// The largest state file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// One set as kept on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSet {
    /// Its revision.
    pub revision: u64,
    /// Its items.
    pub items: Vec<Item>,
}

impl SavedSet {
    /// The hash of its items.
    #[must_use]
    pub fn hash(&self) -> SetHash {
        SetHash::of(&self.items)
    }
}

/// The state directory of one agent.
#[derive(Debug, Clone)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Opens `folder`, making it (mode 0700) if need be, and removes what a crash left half written.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(folder: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ext| ext == "tmp") {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Keeps the rules of `domain`.
    ///
    /// # Errors
    /// What the system says; the old file is still there.
    pub fn save_rules(&self, domain: &str, revision: u64, items: &[Item]) -> io::Result<()> {
        self.write(&rules_file(domain), &SetOnDisk::new(domain, revision, items), true)
    }

    /// The rules of `domain` that were kept last, if they are whole.
    #[must_use]
    pub fn load_rules(&self, domain: &str) -> Option<SavedSet> {
        self.read::<SetOnDisk>(&rules_file(domain)).filter(|set| set.domain == domain).map(Into::into)
    }

    /// Keeps the ring.
    ///
    /// # Errors
    /// As [`Disk::save_rules`].
    pub fn save_ring(&self, revision: u64, items: &[Item]) -> io::Result<()> {
        self.write("ring.state", &SetOnDisk::new("", revision, items), true)
    }

    /// The ring that was kept last, if it is whole.
    #[must_use]
    pub fn load_ring(&self) -> Option<SavedSet> {
        self.read::<SetOnDisk>("ring.state").map(Into::into)
    }

    /// Keeps the secrets, readable by this user only.
    ///
    /// # Errors
    /// As [`Disk::save_rules`].
    pub fn save_secrets(&self, secrets: &Secrets) -> io::Result<()> {
        self.write("secrets.state", &secrets.to_disk(), true)
    }

    /// The secrets that were kept last, if they are whole.
    #[must_use]
    pub fn load_secrets(&self) -> Option<Secrets> {
        let read = self.read::<SecretsOnDisk>("secrets.state")?;
        Secrets::try_from(read).inspect_err(|error| tracing::warn!(%error, "ignoring the secrets on disk")).ok()
    }

    /// Keeps when the control plane was last heard. Not flushed: losing it only makes the rules look older.
    ///
    /// # Errors
    /// As [`Disk::save_rules`].
    pub fn save_confirmed(&self, at: std::time::Duration) -> io::Result<()> {
        self.write("confirmed.state", &at, false)
    }

    /// When the control plane was last heard, since the epoch.
    #[must_use]
    pub fn load_confirmed(&self) -> Option<std::time::Duration> {
        self.read("confirmed.state")
    }

    fn write(&self, name: &str, content: &impl Serialize, flush: bool) -> io::Result<()> {
        let json = serde_json::to_vec(content)?;
        let temporary = self.folder.join(format!("{name}.tmp"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        writeln!(file, "{MAGIC} {}", blake3::hash(&json).to_hex())?;
        file.write_all(&json)?;
        if flush {
            file.sync_all()?;
        }
        fs::rename(&temporary, self.folder.join(name))?;
        if flush {
            // The new name is on disk only when the directory is.
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.folder.join(name);
        match read_checked(&path) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ignoring a damaged state file");
                None
            }
        }
    }
}

fn read_checked<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(damaged("too large"));
    }
    let bytes = fs::read(path)?;
    let end = bytes.iter().position(|b| *b == b'\n').ok_or_else(|| damaged("no first line"))?;
    let (head, json) = (&bytes[..end], &bytes[end + 1..]);
    let expected = format!("{MAGIC} {}", blake3::hash(json).to_hex());
    if head != expected.as_bytes() {
        return Err(damaged("the checksum does not fit"));
    }
    serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))
}

fn rules_file(domain: &str) -> String {
    format!("rules-{domain}.state")
}

#[derive(Serialize, Deserialize)]
struct SetOnDisk {
    domain: String,
    revision: u64,
    items: Vec<ItemOnDisk>,
}

#[derive(Serialize, Deserialize)]
struct ItemOnDisk {
    kind: String,
    name: String,
    body: String,
    requires: Vec<String>,
}

impl SetOnDisk {
    fn new(domain: &str, revision: u64, items: &[Item]) -> Self {
        let items = items.iter().map(|item| ItemOnDisk {
            kind: item.kind.clone(),
            name: item.name.clone(),
            // Bodies are JSON, so they are UTF-8; one that is not never came into force.
            body: String::from_utf8_lossy(&item.body).into_owned(),
            requires: item.requires.clone(),
        });
        Self { domain: domain.to_owned(), revision, items: items.collect() }
    }
}

impl From<SetOnDisk> for SavedSet {
    fn from(set: SetOnDisk) -> Self {
        let item = |i: ItemOnDisk| Item { kind: i.kind, name: i.name, body: i.body.into_bytes(), requires: i.requires };
        Self { revision: set.revision, items: set.items.into_iter().map(item).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn items() -> Vec<Item> {
        vec![Item {
            kind: "rule".into(),
            name: "r".into(),
            body: br#"{"name":"r","note":"\u00fc"}"#.to_vec(),
            requires: vec!["x:y".into()],
        }]
    }

    #[test]
    fn sets_survive_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(&folder.path().join("new/state")).unwrap();
        disk.save_rules("default", 7, &items()).unwrap();
        disk.save_ring(3, &items()).unwrap();
        let rules = disk.load_rules("default").unwrap();
        assert_eq!(rules, SavedSet { revision: 7, items: items() });
        assert_eq!(rules.hash(), SetHash::of(&items()));
        assert_eq!(disk.load_ring().unwrap().revision, 3);
        assert_eq!(disk.load_rules("other"), None);
        disk.save_secrets(&Secrets { fingerprint: "f".into(), ..Secrets::default() }).unwrap();
        let mode = fs::metadata(folder.path().join("new/state/secrets.state")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(disk.load_secrets().unwrap().fingerprint, "f");
    }

    #[test]
    fn every_flipped_or_missing_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        disk.save_rules("default", 7, &items()).unwrap();
        let path = folder.path().join("rules-default.state");
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(disk.load_rules("default"), None, "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert_eq!(disk.load_rules("default"), None, "cut at {place}");
        }
        fs::write(&path, &whole).unwrap();
        assert!(disk.load_rules("default").is_some());
    }

    #[test]
    fn what_a_crash_left_is_removed_and_does_not_shadow_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        disk.save_rules("default", 7, &items()).unwrap();
        fs::write(folder.path().join("rules-default.state.tmp"), "half").unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        assert_eq!(disk.load_rules("default").unwrap().revision, 7);
        assert!(!folder.path().join("rules-default.state.tmp").exists());
    }
}
