//! Formats of container logs, told from one line.

use super::cri::parse_cri;
use super::docker::parse_docker;

/// Format of the log of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ContainerFormat {
    /// Docker's json-file driver.
    Docker,
    /// CRI: containerd, CRI-O.
    Cri,
}

/// The format that a whole line, without its LF, is of; `None` for a line of any other kind.
///
/// One line suffices: each format has three fields that other logs do not have in that order. A
/// line that was cut says nothing, so the first line of a file is asked, and the next one if the
/// reader did not begin at the start of the file.
pub fn detect(line: &[u8]) -> Option<ContainerFormat> {
    match line.first()? {
        b'{' => parse_docker(line).ok().map(|_| ContainerFormat::Docker),
        b'0'..=b'9' => parse_cri(line).ok().map(|_| ContainerFormat::Cri),
        _ => None,
    }
}
