//! Bare HEC relay: takes a request, writes it down if asked to, passes it on, and answers.
//!
//! The least that a forwarder can do: nothing of the body is looked at. A thread a connection, each
//! with its own connection to the collector and its own file. With `--sync` the answer comes after
//! `fdatasync`, without it before anything is durable.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::{LoopCounters, answer, say};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
    Content-Length: 27\r\n\r\n{\"text\":\"Success\",\"code\":0}";

/// Bytes that are read in one call.
const READ_BYTES: usize = 256 << 10;

/// A file begins anew after so many bytes.
const FILE_BYTES: u64 = 64 << 20;

/// Options of the bare relay.
#[derive(Args, Debug)]
pub struct BareRelay {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The collector that requests are passed on to.
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Folder of the files that requests are written to, and synced before the answer.
    #[arg(long, value_name = "FOLDER")]
    sync: Option<PathBuf>,
}

/// Runs until stdin ends.
pub fn run(args: &BareRelay) -> Result<()> {
    let tally = Arc::new(LoopCounters::default());
    let listener = TcpListener::bind(args.listen).with_context(|| args.listen.to_string())?;
    say(&format!("ready {}", listener.local_addr()?.port()))?;
    let (to, folder) = (args.to, args.sync.clone());
    answer(&tally, move |_| {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.context("accept")?;
            let file = folder
                .as_ref()
                .map(|folder| folder.join(number.to_string()));
            thread::spawn(move || {
                if let Err(error) = relay(stream, to, file) {
                    let _ = say(&format!("{error:#}"));
                }
            });
        }
        Ok(())
    })
}

/// One connection, until its sender ends it.
fn relay(mut sender: TcpStream, to: SocketAddr, path: Option<PathBuf>) -> Result<()> {
    let mut collector = TcpStream::connect(to).with_context(|| to.to_string())?;
    sender.set_nodelay(true)?;
    collector.set_nodelay(true)?;
    let mut file = path.as_ref().map(File::create).transpose()?;
    let (mut request, mut reply, mut written) = (Vec::new(), Vec::new(), 0);
    loop {
        let Some(length) = read_message(&mut sender, &mut request)? else {
            return Ok(path.map(fs::remove_file).transpose().map(drop)?);
        };
        if let Some(file) = &mut file {
            file.write_all(&request[..length])?;
            file.sync_data()?;
            written += length as u64;
            if written >= FILE_BYTES {
                file.set_len(0)?;
                std::io::Seek::rewind(file)?;
                written = 0;
            }
        }
        sender.write_all(ANSWER)?;
        collector.write_all(&request[..length])?;
        request.drain(..length);
        let Some(length) = read_message(&mut collector, &mut reply)? else {
            bail!("the collector has gone");
        };
        reply.drain(..length);
    }
}

/// Reads until `buffer` begins with a whole message; gives its length, or `None` at the end.
fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>> {
    loop {
        if let Some(length) = length_of(buffer)?
            && buffer.len() >= length
        {
            return Ok(Some(length));
        }
        let start = buffer.len();
        buffer.resize(start + READ_BYTES, 0);
        let read = match stream.read(&mut buffer[start..]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error).context("read"),
        };
        buffer.truncate(start + read);
        if read == 0 {
            return Ok(None);
        }
    }
}

/// Bytes of the message that begins here, once its head is whole. Only `Content-Length` counts, as
/// our own generator and collector send it.
fn length_of(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(head) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head]).context("head")?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim())
    });
    let length: usize = length.context("no Content-Length")?.parse()?;
    Ok(Some(head + 4 + length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::length_of;

    #[test]
    fn a_message_is_as_long_as_its_head_says() {
        let message = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcPOST";
        assert_eq!(length_of(message).unwrap(), Some(message.len() - 4));
        assert_eq!(length_of(&message[..30]).unwrap(), None);
        assert!(length_of(b"POST / HTTP/1.1\r\n\r\n").is_err());
    }
}
