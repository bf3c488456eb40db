//! Requests that the layer cannot decide. The inner service's own errors pass through untouched.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use weir_core::mistake::Mistakes;

use crate::answer;
use crate::check::CheckError;
use crate::identity::IdentityError;

/// Why a request cannot be decided; it is answered 400 and does not reach the inner service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// It cannot be told who calls.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The rules cannot be applied.
    #[error(transparent)]
    Check(#[from] CheckError),
}

impl Undecidable {
    /// The answer.
    #[must_use]
    pub fn into_response(self) -> Response<Full<Bytes>> {
        match self {
            Self::Check(error) => answer::undecidable(&error).respond(),
            Self::Identity(error) => {
                let mut mistakes = Mistakes::new();
                mistakes.add("", error.to_string());
                answer::bad_request(&mistakes).respond()
            }
        }
    }
}
