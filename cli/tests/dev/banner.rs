//! What `weir dev` prints, line by line, and what a reader makes of it.

use tokio::process::Command;

/// Its lines.
#[derive(Debug)]
pub(crate) struct Banner(pub(crate) Vec<String>);

impl Banner {
    /// What stands beside a name: `agents   http://...`.
    pub(crate) fn row(&self, name: &str) -> &str {
        let beside = |line: &'_ String| line.trim_start().starts_with(name);
        let line = self.0.iter().find(|line| beside(line)).unwrap_or_else(|| panic!("no {name:?} in {self:?}"));
        line.trim_start()[name.len()..].trim()
    }

    /// A variable of the line to paste.
    pub(crate) fn variable(&self, name: &str) -> &str {
        let assignment = format!("{name}=");
        let value = self.row("export").split_whitespace().find_map(|word| word.strip_prefix(assignment.as_str()));
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The commands to try, in their order.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in &self.0 {
            if goes_on {
                let command = commands.last_mut().unwrap();
                command.push('\n');
                command.push_str(line);
            } else if line.starts_with("  curl") || line.starts_with("  for") {
                commands.push(line.clone());
            } else {
                continue;
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }
}

/// What a shell prints for a command of the banner.
pub(crate) async fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().await.unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
