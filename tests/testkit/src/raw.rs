//! Servers below HTTP: scripted bytes, connections that close, and a proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

/// A whole answer that says success and closes the connection.
pub const SUCCESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\nConnection: close\r\n\r\n\
{\"text\":\"Success\",\"code\":0}";

const SUCCESS_AND_STAY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\n{\"text\":\"Success\",\"code\":0}";

/// Reads one request off a stream; its head, once the whole body was read.
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.to_ascii_lowercase();
    let length = length
        .split("content-length: ")
        .nth(1)
        .and_then(|l| l.split('\r').next());
    let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

/// Answers the first request of each connection with the next of these bytes, and closes it;
/// afterwards with success.
pub fn raw_server(answers: Vec<&'static [u8]>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if read_request(&mut stream).is_some() {
                let _ = stream.write_all(answers.next().unwrap_or(SUCCESS));
            }
        }
    });
    address
}

/// Takes one request a connection and promises to keep it. The sender has it closed; the receiver
/// says that it is.
pub fn closing_server() -> (SocketAddr, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, asked) = mpsc::channel();
    let (closed, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if read_request(&mut stream).is_some() {
                stream.write_all(SUCCESS_AND_STAY).unwrap();
                let _ = asked.recv();
                drop(stream);
                let _ = closed.send(());
            }
        }
    });
    (address, close, told)
}

/// A proxy that knows CONNECT, and the targets that it was asked for.
pub fn connect_proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let targets: Arc<Mutex<Vec<String>>> = Arc::default();
    let asked = Arc::clone(&targets);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let head = read_request(&mut client).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let mut server = TcpStream::connect(&target).unwrap();
            asked.lock().unwrap().push(target);
            client
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut server));
            std::thread::spawn(move || std::io::copy(&mut down, &mut client));
        }
    });
    (address, targets)
}
