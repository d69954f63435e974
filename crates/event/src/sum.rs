//! The checksum of what goes to disk.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes behind others whose sum is given; 0 for
/// none.
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
}

/// CRC-32C of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the RFC has it.
    fn slowly(bytes: &[u8]) -> u32 {
        let bit = |sum: u32, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1));
        let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), bit);
        !bytes.iter().fold(!0, byte)
    }

    #[test]
    fn it_is_the_sum_of_the_rfc_however_it_is_cut() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..5_000_u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let ends = [0, 1, 7, 15, 16, 63, 64, 255, 256, 257, 1_023, 4_096, 5_000];
        for end in ends {
            let whole = &bytes[..end];
            assert_eq!(crc32c(whole), slowly(whole), "{end} bytes");
            for cut in ends.into_iter().filter(|cut| *cut <= end) {
                let (front, back) = whole.split_at(cut);
                let joined = crc32c_append(crc32c(front), back);
                assert_eq!(joined, crc32c(whole), "{cut} of {end} bytes");
            }
        }
    }
}
