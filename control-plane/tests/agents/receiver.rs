//! A server that webhooks are sent to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// A status, and a `Location` for redirects.
type Reply = (u16, Option<String>);

#[derive(Clone, Default)]
pub(super) struct Receiver {
    calls: Arc<Mutex<Vec<Call>>>,
    /// What is answered, first come first; then 200.
    answers: Arc<Mutex<Vec<Reply>>>,
}

impl Receiver {
    /// Starts one that answers with these statuses (and `Location`s) first.
    pub(super) async fn start(mut answers: Vec<Reply>) -> (Self, SocketAddr) {
        answers.reverse();
        let receiver = Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (receiver, address)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> Response {
    receiver.calls.lock().unwrap().push(Call { headers, body });
    match receiver.answers.lock().unwrap().pop() {
        Some((status, Some(location))) => (StatusCode::from_u16(status).unwrap(), [("location", location)]).into_response(),
        Some((status, None)) => StatusCode::from_u16(status).unwrap().into_response(),
        None => StatusCode::OK.into_response(),
    }
}
