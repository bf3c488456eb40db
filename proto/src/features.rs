//! Features of items: what a reader must know to use them.

use weir_core::limit::Algorithm;

/// The features of this build, as sent in `Hello`.
#[must_use]
pub fn supported() -> Vec<String> {
    Algorithm::ALL.iter().map(|a| format!("algorithm:{}", a.as_str())).collect()
}
