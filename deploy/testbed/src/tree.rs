//! A process with all its descendants, as `/proc` shows them. Postgres' backends are in sessions of their own, so a process group does not cover
//! them.

use std::collections::{HashMap, HashSet};
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to `root` first and then to its descendants, again until no new ones turn up.
pub(crate) fn signal(root: Pid, signal: Signal) {
    let members = descendants(root.as_raw());
    let _ = kill(root, signal);
    let mut done = HashSet::from([root.as_raw()]);
    // Looked up before the root got the signal (it may be gone now) and again after (it may have forked meanwhile).
    let mut pending = members;
    loop {
        pending.retain(|pid| done.insert(*pid));
        if pending.is_empty() {
            return;
        }
        for pid in &pending {
            let _ = kill(Pid::from_raw(*pid), signal);
        }
        pending = descendants(root.as_raw());
    }
}

/// All processes below `root`, parents before children.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        todo.extend(below);
    }
    found
}

/// Every process with its parent.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // "pid (name) state parent ...": the name may hold anything, so count from its last parenthesis.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
}
