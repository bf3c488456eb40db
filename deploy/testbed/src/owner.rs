use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, User};

use crate::error::{Doing, Error};

/// The unprivileged user that servers run as when we are root: Postgres refuses root, and Redis has no need of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    /// Whom servers run as: `None` means as ourselves, which is the case for an ordinary user.
    pub fn for_servers() -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        let nobody = User::from_name("nobody").ok().flatten();
        Some(nobody.map_or(Self { uid: 65534, gid: 65534 }, |user| Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }))
    }

    /// Hands a file or folder over.
    pub(crate) fn give(self, path: &Path) -> Result<(), Error> {
        nix::unistd::chown(path, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
            .doing(|| format!("hand {} to uid {}", path.display(), self.uid))
    }

    /// Whether this user may walk through every folder down to and including `path`.
    pub(crate) fn reaches(self, path: &Path) -> bool {
        path.ancestors().all(|folder| std::fs::metadata(folder).is_ok_and(|found| self.may_enter(&found)))
    }

    fn may_enter(self, folder: &Metadata) -> bool {
        let bit = match () {
            () if folder.uid() == self.uid => 0o100,
            () if folder.gid() == self.gid => 0o010,
            () => 0o001,
        };
        folder.mode() & bit != 0
    }
}
