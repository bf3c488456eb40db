//! Just enough of the Redis protocol to set servers up: a command, and its answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use crate::error::{Doing, Error};

/// How long a server may take to answer a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A text, or bytes as far as they are text; numbers are written out, and nothing is empty.
    Text(String),
    /// Several answers.
    List(Vec<Reply>),
    /// A refusal.
    Error(String),
}

impl Reply {
    /// The text; empty for a list.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Error(text) => text,
            Self::List(_) => "",
        }
    }

    /// The parts of a list.
    pub fn list(&self) -> &[Self] {
        if let Self::List(parts) = self { parts } else { &[] }
    }
}

/// Runs one command on the server at `addr`; a refusal is an error.
pub(crate) async fn ask(addr: SocketAddr, password: Option<&str>, words: &[&str]) -> Result<Reply, Error> {
    let talk = async {
        let mut stream = BufStream::new(TcpStream::connect(addr).await?);
        if let Some(password) = password {
            stream.write_all(command(&["AUTH", password]).as_bytes()).await?;
            stream.flush().await?;
            read(&mut stream).await?;
        }
        stream.write_all(command(words).as_bytes()).await?;
        stream.flush().await?;
        match read(&mut stream).await? {
            Reply::Error(error) => Err(std::io::Error::other(error)),
            reply => Ok(reply),
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    outcome.doing(|| format!("run {} on the server at {addr}", words.first().copied().unwrap_or_default()))
}

/// A command in the Redis protocol.
pub(crate) fn command(words: &[&str]) -> String {
    let arguments: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{arguments}", words.len())
}

async fn read(stream: &mut (impl AsyncBufRead + Unpin + Send)) -> std::io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or(std::io::ErrorKind::InvalidData)?;
    let count = || rest.parse::<i64>().map_err(std::io::Error::other);
    Ok(match kind {
        "-" => Reply::Error(rest.to_owned()),
        "$" => match usize::try_from(count()?) {
            Err(_) => Reply::Text(String::new()),
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => {
            let mut parts = Vec::new();
            for _ in 0..count()? {
                parts.push(Box::pin(read(stream)).await?);
            }
            Reply::List(parts)
        }
        _ => Reply::Text(rest.to_owned()),
    })
}
