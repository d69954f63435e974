//! A relay in front of a collector that keeps every byte that clients send.
//!
//! A connection's bytes are kept before they are passed on, so whoever has an answer finds its
//! request here. [`Recorder::save`] writes them to `tests/data/hec-requests`, which the black-box
//! tests replay.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::{DEADLINE, HecClient, RecordedRequest};

/// Bytes of each connection, in the order of their begin.
type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

/// A running relay; it ends with the process of the tests.
pub struct Recorder {
    address: SocketAddr,
    heard: Heard,
}

/// Folder of the recordings.
fn recordings() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/hec-requests")
}

impl Recorder {
    /// A relay to this address.
    pub fn before(to: SocketAddr) -> Self {
        Self::start(move |client, heard, number| relay(&client, to, &heard, number))
    }

    /// A relay that ends TLS: what it passes on, and keeps, is plain.
    pub fn before_with_tls(to: SocketAddr, config: Arc<ServerConfig>) -> Self {
        Self::start(move |client, heard, number| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            relay_tls(StreamOwned::new(session, client), to, &heard, number);
        })
    }

    fn start(serve: impl Fn(TcpStream, Heard, usize) + Send + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Heard::default();
        let own = Arc::clone(&heard);
        thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                own.lock().unwrap().push(Vec::new());
                let (heard, serve) = (Arc::clone(&own), serve.clone());
                thread::spawn(move || serve(client, heard, number));
            }
        });
        Self { address, heard }
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes of each connection that has sent some.
    pub fn connections(&self) -> Vec<Vec<u8>> {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|one| !one.is_empty())
            .cloned()
            .collect()
    }

    /// Writes each connection's bytes to a file `NAME.N.http`, if `INRUSH_RECORD` is set.
    pub fn save(&self, name: &str) {
        if std::env::var_os("INRUSH_RECORD").is_none_or(|set| set.is_empty()) {
            return;
        }
        std::fs::create_dir_all(recordings()).unwrap();
        for file in recorded_files(name) {
            std::fs::remove_file(file).unwrap();
        }
        for (number, bytes) in self.connections().iter().enumerate() {
            let file = recordings().join(format!("{name}.{number}.http"));
            std::fs::write(file, bytes).unwrap();
        }
    }
}

/// Files with the recorded connections of a client, in their order.
pub fn recorded_files(name: &str) -> Vec<PathBuf> {
    let file = |number: usize| recordings().join(format!("{name}.{number}.http"));
    (0..).map(file).take_while(|file| file.is_file()).collect()
}

/// Passes bytes on both ways until both sides have closed.
fn relay(client: &TcpStream, to: SocketAddr, heard: &Heard, number: usize) {
    let Ok(server) = TcpStream::connect(to) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut into) = (&server, client);
            let _ = std::io::copy(&mut from, &mut into);
            let _ = client.shutdown(Shutdown::Write);
        });
        let (mut from, mut into, mut bytes) = (client, &server, [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            heard.lock().unwrap()[number].extend_from_slice(&bytes[..count]);
            if into.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Write);
    });
}

/// Passes one request on after the other, each as soon as the one before is answered.
fn relay_tls(
    mut client: StreamOwned<ServerConnection, TcpStream>,
    to: SocketAddr,
    heard: &Heard,
    number: usize,
) {
    client.sock.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut server = HecClient::connect(to, "");
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        heard.lock().unwrap()[number].extend_from_slice(&bytes[..count]);
        read.extend_from_slice(&bytes[..count]);
        if let Some((_, length)) = RecordedRequest::first_of(&read) {
            let reply = server.send(read.drain(..length).as_slice()).answer();
            let answer = format!("{}\r\n\r\n{}", reply.head, reply.body);
            if client
                .write_all(answer.as_bytes())
                .and_then(|()| client.flush())
                .is_err()
            {
                return;
            }
        }
    }
}
