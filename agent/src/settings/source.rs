//! Where the values of settings stand: flags, environment, file, in this order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use secrecy::SecretString;
use weir_core::mistake::{Mistakes, place};

use super::flags::Flags;

/// The beginning of every environment variable.
const PREFIX: &str = "WEIR_AGENT_";

/// The values of settings by key, and every mistake met while reading them. A key `x_y` is the variable `WEIR_AGENT_X_Y` and the flag
/// `--x-y`; a list is repeated as a flag, comma-separated in a variable, an array in the file.
#[derive(Debug, Default)]
pub(super) struct Source {
    file: BTreeMap<String, Vec<String>>,
    file_name: String,
    environment: BTreeMap<String, String>,
    flags: BTreeMap<&'static str, Vec<String>>,
    asked: BTreeSet<String>,
    mistakes: Mistakes,
}

/// The values of one setting, and where they stand.
struct Found {
    values: Vec<String>,
    place: String,
}

impl Source {
    pub(super) fn new(flags: &Flags, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut source = Self {
            environment: environment.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect(),
            flags: flags.values().into_iter().filter(|(_, values)| !values.is_empty()).collect(),
            ..Self::default()
        };
        let named = source.environment.remove(&format!("{PREFIX}CONFIG"));
        if let Some(path) = flags.config.clone().or_else(|| named.map(Into::into)) {
            source.read_file(&path);
        }
        source
    }

    fn read_file(&mut self, path: &Path) {
        self.file_name = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.mistake(&path.display().to_string(), format!("cannot be read: {error}")),
        };
        let read = config::Config::builder().add_source(config::File::from_str(&text, config::FileFormat::Toml)).build();
        match read.and_then(config::Config::try_deserialize::<BTreeMap<String, config::Value>>) {
            Ok(values) => {
                for (key, value) in values {
                    match texts(value) {
                        Some(texts) => drop(self.file.insert(key, texts)),
                        None => self.mistake(&key, "must be a text, a number, true, false or a list of these".to_owned()),
                    }
                }
            }
            Err(error) => self.mistake(&path.display().to_string(), format!("is not TOML: {}", without_text(&error, &text))),
        }
    }

    /// Notes a mistake; `place` names the setting as the operator wrote it.
    pub(super) fn mistake(&mut self, place: &str, detail: String) {
        self.mistakes.add(place, detail);
    }

    fn find(&mut self, key: &'static str) -> Option<Found> {
        self.asked.insert(key.to_owned());
        if let Some(values) = self.flags.get(key) {
            return Some(Found { values: values.clone(), place: format!("--{}", key.trim_end_matches('s').replace('_', "-")) });
        }
        let variable = format!("{PREFIX}{}", key.to_uppercase());
        if let Some(value) = self.environment.get(&variable) {
            let values = value.split(',').map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned).collect();
            return Some(Found { values, place: variable });
        }
        let values = self.file.get(key)?;
        Some(Found { values: values.clone(), place: format!("{}: {key}", self.file_name) })
    }

    /// Whether the setting is given.
    pub(super) fn has(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|found| !found.values.is_empty())
    }

    /// Every value of a list that can be read.
    pub(super) fn list<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let mut read = Vec::with_capacity(found.values.len());
        for value in &found.values {
            match parse(value) {
                Ok(value) => read.push(value),
                Err(detail) => self.mistake(&found.place, detail),
            }
        }
        read
    }

    /// One value, if given.
    pub(super) fn optional<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let found = self.find(key)?;
        match found.values.as_slice() {
            [] => None,
            [value] => parse(value).map_err(|detail| self.mistake(&found.place, detail)).ok(),
            _ => {
                self.mistake(&found.place, "must be one value".to_owned());
                None
            }
        }
    }

    /// One value, or what is taken without it.
    pub(super) fn one<T>(&mut self, key: &'static str, default: T, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.optional(key, parse).unwrap_or(default)
    }

    /// A secret: the content of the file that `file_key` names, else the value of `key` in the environment only, since files of settings
    /// and command lines are seen by others.
    pub(super) fn secret(&mut self, key: &'static str, file_key: &'static str) -> Option<SecretString> {
        self.asked.insert(key.to_owned());
        let variable = format!("{PREFIX}{}", key.to_uppercase());
        if self.file.contains_key(key) {
            self.mistake(key, format!("must not stand in the settings file; use {file_key}"));
        }
        let read = |path: &str| crate::uplink::read_secret(Path::new(path)).map_err(|error| format!("cannot read {path}: {error}"));
        let from_file = self.optional(file_key, read);
        from_file.or_else(|| self.environment.get(&variable).map(|value| SecretString::from(value.trim())))
    }

    /// All mistakes, with those about settings that nobody asked for.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Mistakes> {
        let in_file: Vec<String> = self.file.keys().filter(|key| !self.asked.contains(*key)).cloned().collect();
        for key in in_file {
            self.mistake(&format!("{}: {key}", self.file_name), "is not a setting".to_owned());
        }
        let is_unknown = |name: &&String| !self.asked.contains(&name[PREFIX.len()..].to_lowercase());
        let in_environment: Vec<String> = self.environment.keys().filter(is_unknown).cloned().collect();
        for name in in_environment {
            self.mistake(&name, "is not a setting".to_owned());
        }
        self.mistakes.into_result(value)
    }
}

/// What is wrong with the form of the file, with the place and without the text there, which may be a secret.
fn without_text(error: &config::ConfigError, text: &str) -> String {
    let config::ConfigError::FileParse { cause, .. } = error else { return error.to_string() };
    let Some(cause) = cause.downcast_ref::<toml::de::Error>() else { return String::new() };
    format!("{}{}", cause.span().map(|span| place(text, span.start)).unwrap_or_default(), cause.message())
}

fn texts(value: config::Value) -> Option<Vec<String>> {
    match value.kind {
        config::ValueKind::Array(values) => values.into_iter().map(text).collect(),
        config::ValueKind::Nil => Some(Vec::new()),
        _ => text(value).map(|text| vec![text]),
    }
}

fn text(value: config::Value) -> Option<String> {
    match value.kind {
        config::ValueKind::Table(_) | config::ValueKind::Array(_) => None,
        _ => value.into_string().ok(),
    }
}
