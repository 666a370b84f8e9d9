//! The hash chain of a tree, over the bytes as they are stored.

use sha2::{Digest as _, Sha256};

/// One link: the hash of everything up to and including a record.
pub type Hash = [u8; 32];

/// What comes before the first record of a tree.
pub const START: Hash = [0; 32];

/// SHA-256 over the previous hash and the stored bytes of body and envelope, each behind its length, so that no byte
/// can move from one to the other.
pub fn link(previous: &Hash, body: &[u8], envelope: &[u8]) -> Hash {
    let mut hash = Sha256::new();
    hash.update(previous);
    for part in [body, envelope] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_border_between_the_parts_count() {
        let link_of = |body: &str, envelope: &str| link(&START, body.as_bytes(), envelope.as_bytes());
        let hash = link_of("ab", "cd");
        for (body, envelope) in [("aB", "cd"), ("ab", "cD"), ("abc", "d"), ("a", "bcd"), ("", "abcd"), ("cd", "ab")] {
            assert_ne!(link_of(body, envelope), hash, "{body} {envelope}");
        }
        assert_ne!(link(&hash, b"ab", b"cd"), hash);
    }

    #[test]
    fn the_definition_does_not_drift() {
        let hash = link(&START, b"{}", b"{}");
        let mut plain = Vec::from(START);
        plain.extend_from_slice(b"\x02\0\0\0\0\0\0\0{}\x02\0\0\0\0\0\0\0{}");
        let expected: Hash = Sha256::digest(&plain).into();
        assert_eq!(hash, expected);
    }
}
