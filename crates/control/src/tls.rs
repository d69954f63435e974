//! TLS of the admin listener: the handshake, and the certificate that is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use inrush_event::Metric;
use inrush_event::{MetricPart, MetricSample};
use inrush_transport::config::TlsServerOptions;
use inrush_transport::tls::{Refresh, ServerTls, TlsError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The certificate and key of the listener.
pub(crate) struct ListenerTls {
    server: ServerTls,
    reloads: AtomicU64,
    failures: AtomicU64,
}

impl ListenerTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// They cannot be read or used.
    pub(crate) fn load(options: &TlsServerOptions) -> Result<Self, TlsError> {
        Ok(Self {
            server: ServerTls::load(options)?,
            reloads: AtomicU64::default(),
            failures: AtomicU64::default(),
        })
    }

    /// The handshake, within `limit`. What goes wrong is the client's and not worth a line.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
    ) -> Option<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.server.config());
        timeout(limit, acceptor.accept(stream)).await.ok()?.ok()
    }

    /// Looks at the files until `stopped` turns true.
    pub(crate) async fn watch(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                () = sleep(LOOK_EVERY) => {}
            }
            let tls = Arc::clone(&self);
            // A disk may be slow, and the one thread is not to wait for it.
            let _ = tokio::task::spawn_blocking(move || tls.refresh()).await;
        }
    }

    fn refresh(&self) {
        match self.server.refresh() {
            Refresh::Unchanged => {}
            Refresh::Reloaded { not_after } => {
                self.reloads.fetch_add(1, Relaxed);
                tracing::info!(not_after, "admin: certificate reloaded");
            }
            Refresh::Kept(error) => {
                self.failures.fetch_add(1, Relaxed);
                tracing::warn!(%error, "admin: the last good certificate is kept");
            }
        }
    }

    /// Samples of it for `/metrics`.
    pub(crate) fn metrics(&self) -> Vec<MetricSample> {
        let reloads = |result: &str, count: &AtomicU64| MetricSample {
            metric: Metric::AdminTlsReloads,
            part: MetricPart::Whole,
            labels: vec![("result", result.to_owned())],
            value: count.load(Relaxed) as f64,
        };
        let not_after = MetricSample {
            metric: Metric::AdminCertificateNotAfter,
            part: MetricPart::Whole,
            labels: Vec::new(),
            value: self.server.not_after() as f64,
        };
        vec![
            not_after,
            reloads("ok", &self.reloads),
            reloads("failed", &self.failures),
        ]
    }
}
