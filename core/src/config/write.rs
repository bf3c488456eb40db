//! From domain types to the JSON and YAML that people write.

use std::collections::BTreeMap;

use serde::Serializer;

use crate::limit::Limit;
use crate::name::Name;

/// Limits as a map from tier name, or `"*"`, to `{limit, window, burst}` or `{unlimited: true}`.
pub(crate) fn limits<S: Serializer>(_limits: &BTreeMap<Option<Name>, Limit>, _serializer: S) -> Result<S::Ok, S::Error> {
    todo!()
}
