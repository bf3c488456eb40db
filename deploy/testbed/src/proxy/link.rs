use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Mode;

/// Bytes read at once.
const PACKET: usize = 16 * 1024;
/// Packets that may wait for their delay to pass.
const QUEUE: usize = 1024;

/// Serves one client until both sides are through; an error, or dropping this future, resets both connections.
pub(super) async fn serve(client: TcpStream, target: SocketAddr, mut mode: watch::Receiver<Mode>) -> io::Result<()> {
    let mut client = Resetting::new(client)?;
    let mut sink = vec![0; PACKET];
    loop {
        let now = *mode.borrow_and_update();
        tokio::select! {
            changed = mode.changed(), if matches!(now, Mode::Blackhole | Mode::AcceptSilent) => changed.map_err(io::Error::other)?,
            read = client.stream.read(&mut sink), if now == Mode::AcceptSilent => if read? == 0 { return Ok(()) },
            else => break,
        }
    }
    let mut server = Resetting::new(TcpStream::connect(target).await?)?;
    let (from_client, to_client) = client.stream.split();
    let (from_server, to_server) = server.stream.split();
    let requests = Pump { from: from_client, to: to_server, mode: mode.clone(), replies: false, queue: VecDeque::new(), ended: false };
    let replies = Pump { from: from_server, to: to_client, mode, replies: true, queue: VecDeque::new(), ended: false };
    tokio::try_join!(requests.run(), replies.run())?;
    client.through = true;
    server.through = true;
    Ok(())
}

/// A connection that is reset when dropped, unless all is said.
struct Resetting {
    stream: TcpStream,
    through: bool,
}

impl Resetting {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, through: false })
    }
}

impl Drop for Resetting {
    fn drop(&mut self) {
        if !self.through {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// One direction of a connection.
struct Pump<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    mode: watch::Receiver<Mode>,
    /// From the server to the client.
    replies: bool,
    /// What was read and waits to be written, with the time for that.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// The reading side is through.
    ended: bool,
}

impl Pump<'_> {
    async fn run(mut self) -> io::Result<()> {
        let mut packet = vec![0; PACKET];
        while !(self.ended && self.queue.is_empty()) {
            let mode = *self.mode.borrow_and_update();
            let due = self.queue.front().map(|(due, _)| *due);
            let (passing, listening) = (mode != Mode::Blackhole, mode != Mode::Blackhole && !self.ended && self.queue.len() < QUEUE);
            tokio::select! {
                changed = self.mode.changed() => changed.map_err(io::Error::other)?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if passing && due.is_some() => self.write_next(mode).await?,
                read = self.from.read(&mut packet), if listening => self.take(&packet[..read?], mode),
            }
        }
        self.to.shutdown().await
    }

    /// Queues what was read.
    fn take(&mut self, packet: &[u8], mode: Mode) {
        if packet.is_empty() {
            self.ended = true;
        } else if mode != Mode::AcceptSilent {
            let delay = match mode {
                Mode::Delay(delay) if self.replies => delay,
                Mode::Jitter(most) if self.replies => most.mul_f64(rand::random()),
                _ => Duration::ZERO,
            };
            self.queue.push_back((Instant::now() + delay, packet.to_vec()));
        }
    }

    async fn write_next(&mut self, mode: Mode) -> io::Result<()> {
        let Some((_, packet)) = self.queue.pop_front() else { return Ok(()) };
        if mode == Mode::ResetMidReply && self.replies {
            self.to.write_all(&packet[..packet.len() / 2]).await?;
            return Err(ErrorKind::ConnectionReset.into());
        }
        self.to.write_all(&packet).await
    }
}
