//! The name of one unit of a `concurrency` limit in use: who holds it gives it back under this name.

use std::fmt;
use std::str::FromStr;

/// 128 random bits, chosen by whoever acquires. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId([u8; 16]);

impl LeaseId {
    /// From random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as a counter store keeps them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that names no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease is 32 hexadecimal digits")]
pub struct NoLease;

impl FromStr for LeaseId {
    type Err = NoLease;

    fn from_str(text: &str) -> Result<Self, NoLease> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoLease);
        }
        u128::from_str_radix(text, 16).map(|bits| Self(bits.to_be_bytes())).map_err(|_| NoLease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_read_as_they_are_written() {
        let lease = LeaseId::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 254, 255]);
        assert_eq!(lease.to_string(), "000102030405060708090a0b0c0dfeff");
        assert_eq!(lease.to_string().parse(), Ok(lease));
        assert_eq!(lease.to_string().to_uppercase().parse(), Ok(lease));
        for bad in ["", "00", "+00102030405060708090a0b0c0dfeff", "g00102030405060708090a0b0c0dfeff", "000102030405060708090a0b0c0dfeff0"] {
            assert_eq!(bad.parse::<LeaseId>(), Err(NoLease), "{bad}");
        }
    }
}
