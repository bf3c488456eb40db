use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::error::{Doing, Error};
use crate::port::loopback;

mod link;

/// What a [`Proxy`] does to the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Passes everything on.
    #[default]
    Forward,
    /// Like a stopped server: open connections are reset, and new ones are refused because nobody listens.
    Refuse,
    /// Like a network that lost its way: connections stay open, and no byte passes. Back in `Forward`, what was sent meanwhile arrives.
    Blackhole,
    /// Like a server that hangs after accepting: new connections are accepted and what is sent is read, but none ever gets an answer. Connections
    /// that were used in this mode are closed when it ends.
    AcceptSilent,
    /// Each reply arrives this much later; requests are not delayed, and replies do not queue behind each other.
    Delay(Duration),
    /// The same, each reply by another time from none to this.
    Jitter(Duration),
    /// The request reaches the server; the connection is reset after half of the reply's first packet.
    ResetMidReply,
}

/// A TCP proxy on a fixed port of 127.0.0.1, to cut a server off in all the ways networks do.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    target: watch::Sender<SocketAddr>,
    orders: mpsc::UnboundedSender<Order>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    accepted: AtomicUsize,
}

/// Something to do, and whom to tell that it is done.
#[derive(Debug)]
enum Order {
    Mode(Mode, oneshot::Sender<()>),
    Cut(oneshot::Sender<()>),
}

impl Proxy {
    /// Listens on a free port and forwards to `target`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(target: SocketAddr) -> Result<Self, Error> {
        let listener = listen_anywhere().await.doing(|| "find a port for the proxy".into())?;
        let addr = listener.local_addr().doing(|| "look up the proxy's port".into())?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let target = watch::Sender::new(target);
        let counts = Arc::new(Counts::default());
        let worker = Worker { addr, target: target.subscribe(), mode: watch::Sender::new(Mode::Forward), counts: Arc::clone(&counts) };
        tokio::spawn(worker.run(listener, inbox));
        Ok(Self { addr, target, orders, counts })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes what happens to the traffic, on open connections too. The new mode is in force when this returns.
    pub async fn set_mode(&self, mode: Mode) {
        self.order(|done| Order::Mode(mode, done)).await;
    }

    /// Resets all open connections; the mode stays.
    pub async fn cut(&self) {
        self.order(Order::Cut).await;
    }

    /// Sends new connections elsewhere; open ones stay where they are.
    pub fn retarget(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    /// Connections accepted since the start.
    pub fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    async fn order(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, seen) = oneshot::channel();
        if self.orders.send(order(done)).is_ok() {
            let _ = seen.await;
        }
    }
}

/// The task that owns the listener and the connections; it ends with the [`Proxy`].
struct Worker {
    addr: SocketAddr,
    target: watch::Receiver<SocketAddr>,
    mode: watch::Sender<Mode>,
    counts: Arc<Counts>,
}

impl Worker {
    async fn run(self, listener: TcpListener, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                order = inbox.recv() => match order {
                    None => return,
                    Some(Order::Cut(done)) => {
                        connections.shutdown().await;
                        let _ = done.send(());
                    }
                    Some(Order::Mode(mode, done)) => {
                        self.enter(mode, &mut listener, &mut connections).await;
                        let _ = done.send(());
                    }
                },
                Some(_) = connections.join_next() => {}
                Some(stream) = accept(listener.as_ref()) => {
                    self.counts.accepted.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(self.connection(stream));
                }
            }
        }
    }

    async fn enter(&self, mode: Mode, listener: &mut Option<TcpListener>, connections: &mut JoinSet<()>) {
        let before = self.mode.send_replace(mode);
        if mode == Mode::Refuse {
            *listener = None;
        } else if listener.is_none() {
            *listener = TcpListener::bind(self.addr).await.ok();
            if listener.is_none() {
                tracing::error!("the proxy's port {} was taken while it refused connections", self.addr);
            }
        }
        if mode == Mode::Refuse || (before == Mode::AcceptSilent && mode != before) {
            connections.shutdown().await;
        }
    }

    fn connection(&self, client: TcpStream) -> impl Future<Output = ()> + use<> {
        let (mode, target) = (self.mode.subscribe(), *self.target.borrow());
        let open = Open::new(Arc::clone(&self.counts));
        async move {
            let _open = open;
            if let Err(error) = link::serve(client, target, mode).await {
                tracing::debug!("a connection through the proxy was reset: {error}");
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn listen_anywhere() -> std::io::Result<TcpListener> {
    loop {
        match TcpListener::bind(loopback(crate::free_port()?)).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
}

/// Counts a connection as open while it lives.
struct Open(Arc<Counts>);

impl Open {
    fn new(counts: Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self(counts)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
