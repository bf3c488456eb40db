//! Which primary of a Redis Cluster owns which slot.

use redis::Value;

use super::address::Host;

/// How many hash slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of the counters of a tag. Keys begin with their tag in braces, so all of a tag's share it.
pub(super) fn slot_of(tag: &[u8]) -> u16 {
    tag.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    }) % SLOTS
}

/// A stretch of slots, first and last, and the primary that owns them.
pub(super) type Stretch = (u16, u16, Host);

/// Reads the answer to CLUSTER SLOTS by the node at `asked`. Whatever cannot be read is left out.
pub(super) fn read(answer: &Value, asked: &Host) -> Vec<Stretch> {
    let Value::Array(stretches) = answer else { return Vec::new() };
    stretches.iter().filter_map(|stretch| read_stretch(stretch, asked)).collect()
}

fn read_stretch(stretch: &Value, asked: &Host) -> Option<Stretch> {
    let Value::Array(parts) = stretch else { return None };
    let [first, last, Value::Array(primary), ..] = parts.as_slice() else { return None };
    let slot = |value: &Value| if let Value::Int(slot) = value { u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS) } else { None };
    let name = match primary.first()? {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        _ => String::new(),
    };
    let Value::Int(port) = primary.get(1)? else { return None };
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then_some((first, last, host(name, u16::try_from(*port).ok()?, asked)))
}

/// A node that does not know its own name (an empty one, or `?`) is reached as the one that was asked.
fn host(name: String, port: u16, asked: &Host) -> Host {
    let name = if matches!(name.as_str(), "" | "?") { asked.name.clone() } else { name };
    Host { name, port }
}

/// Reads the place in a redirection, `host:port` or `:port`, which the node at `asked` gave.
pub(super) fn redirected(place: &str, asked: &Host) -> Option<Host> {
    let (name, port) = place.rsplit_once(':')?;
    Some(host(name.trim_matches(['[', ']']).to_owned(), port.parse().ok()?, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!((slot_of(b"foo"), slot_of(b"123456789"), slot_of(b"")), (12_182, 0x31C3, 0));
    }

    #[test]
    fn a_map_is_read_as_far_as_it_can_be() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let primary = |name: Value, port: i64| Value::Array(vec![name, Value::Int(port), text("id")]);
        let stretch = |first: i64, last: i64, primary: Value| Value::Array(vec![Value::Int(first), Value::Int(last), primary]);
        let answer = Value::Array(vec![
            stretch(0, 5, primary(text("10.0.0.1"), 7)),
            stretch(6, 9, primary(text(""), 8)),
            stretch(10, 10, primary(Value::Nil, 9)),
            stretch(11, 16_384, primary(text("x"), 1)),
            stretch(13, 12, primary(text("x"), 1)),
            Value::Int(3),
        ]);
        let asked = node("seed", 1);
        assert_eq!(read(&answer, &asked), [(0, 5, node("10.0.0.1", 7)), (6, 9, node("seed", 8)), (10, 10, node("seed", 9))]);
        assert_eq!(read(&Value::Nil, &asked), []);
    }

    #[test]
    fn redirections_may_leave_the_host_out() {
        let asked = node("seed", 1);
        assert_eq!(redirected("10.0.0.1:7", &asked), Some(node("10.0.0.1", 7)));
        assert_eq!(redirected("::1:7", &asked), Some(node("::1", 7)));
        assert_eq!(redirected(":7", &asked), Some(node("seed", 7)));
        assert_eq!(redirected("7", &asked), None);
    }
}
