//! The gRPC face of the push: authenticates, then hands the stream over.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::{Request, Response, Status, Streaming};
use weir_proto::v1;
use weir_proto::v1::config_sync_server::ConfigSync;

use super::hub::Hub;
use super::stream::{Caller, serve};
use crate::auth::guard;
use crate::state::App;

/// Messages that may wait for an agent to read them; what comes after is not made yet.
const AHEAD: usize = 4;

/// The service.
pub(super) struct Sync {
    hub: Arc<Hub>,
}

impl Sync {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub }
    }
}

/// The address at the other end of the connection.
fn peer<T>(request: &Request<T>) -> IpAddr {
    request.remote_addr().map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip().to_canonical())
}

/// Who is at the other end, where trusted proxies may stand between.
pub(crate) fn client_address<T>(app: &App, request: &Request<T>) -> IpAddr {
    guard::client_address(app, peer(request), request.metadata().as_ref())
}

/// Whether nobody else can read what is sent.
fn is_private<T>(request: &Request<T>) -> bool {
    let tls = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>().is_some();
    tls || peer(request).is_loopback()
}

#[tonic::async_trait]
impl ConfigSync for Sync {
    type SyncStream = Pin<Box<dyn Stream<Item = Result<v1::ServerMessage, Status>> + Send>>;

    async fn sync(&self, request: Request<Streaming<v1::AgentMessage>>) -> Result<Response<Self::SyncStream>, Status> {
        let app = self.hub.app();
        let token = self.hub.tokens().check(app, request.metadata(), client_address(app, &request)).await?;
        let caller = Caller { token, private: is_private(&request) };
        let (outbound, messages) = mpsc::channel(AHEAD);
        app.tasks.spawn(serve(self.hub.clone(), caller, request.into_inner(), outbound));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}
