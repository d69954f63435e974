//! Collectors in this process, with a thread for each connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::READ_BYTES;
use super::http::{Exchange, HecHandler};

/// Serves a free port of 127.0.0.1 until the process ends. `named` begins a thread, `open` makes a
/// stream and a handler of a connection.
///
/// # Errors
/// No port or no thread can be had.
pub fn serve_on_threads<S, H>(
    named: impl Fn() -> thread::Builder + Send + 'static,
    mut open: impl FnMut(TcpStream) -> io::Result<(S, H)> + Send + 'static,
) -> io::Result<SocketAddr>
where
    S: Read + Write + Send + 'static,
    H: HecHandler + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let acceptor = named();
    let accept = move || {
        for stream in listener.incoming().flatten() {
            // An answer is small: without this it would wait for the next one.
            let opened = stream.set_nodelay(true).and_then(|()| open(stream));
            if let Ok((stream, handler)) = opened {
                // Without a thread the connection is closed, and the peer tries again.
                let _ = named().spawn(move || serve(stream, handler));
            }
        }
    };
    acceptor.spawn(accept)?;
    Ok(address)
}

/// Answers requests until either side hangs up.
fn serve<H: HecHandler>(mut stream: impl Read + Write, mut handler: H) -> Option<()> {
    let (mut exchange, mut out) = (Exchange::new(), Vec::new());
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let length = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.ok().filter(|length| *length > 0)?,
        };
        exchange.feed(&buffer[..length], &mut handler, &mut out)?;
        stream.write_all(&out).and_then(|()| stream.flush()).ok()?;
        handler.sent();
        out.clear();
    }
}
