//! Which batches of one agent process are stored: the highest sequence number and one bit for each of the 64 before it, as IPsec's
//! replay window does it (RFC 4303, section 3.4.3). One small row per process, whatever it sends.

/// The stored batches of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The highest sequence number stored; 0: none.
    pub highest: i64,
    /// Bit i: `highest - 1 - i` is stored.
    pub seen: i64,
}

/// How far behind the highest a batch may come.
const BEHIND: i64 = 64;

impl Progress {
    /// Notes that `sequence` is to be stored; false if it is stored already, or too far behind to know. Agents send in order and one
    /// at a time is stored per process, so what is that far behind was stored, or was given up by the agent.
    pub fn take(&mut self, sequence: i64) -> bool {
        if sequence > self.highest {
            let step = sequence - self.highest;
            let shifted = if step < BEHIND { self.seen.cast_unsigned() << step } else { 0 };
            let former = if self.highest > 0 && step <= BEHIND { 1 << (step - 1) } else { 0 };
            (self.highest, self.seen) = (sequence, (shifted | former).cast_signed());
            return true;
        }
        let back = self.highest - 1 - sequence;
        if !(0..BEHIND).contains(&back) || self.seen >> back & 1 == 1 {
            return false;
        }
        self.seen |= 1 << back;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_sequence_is_taken_once() {
        let mut progress = Progress::default();
        assert!(progress.take(1) && progress.take(2) && progress.take(5));
        assert!(!progress.take(5) && !progress.take(2) && !progress.take(1));
        assert!(progress.take(4) && progress.take(3));
        assert!(!progress.take(4) && !progress.take(3));
        assert!(progress.take(1_000) && !progress.take(1_000) && !progress.take(5));
    }

    proptest! {
        #[test]
        fn nothing_is_taken_twice_and_nothing_near_is_lost(order in prop::collection::vec(1..200_i64, 1..300)) {
            let (mut progress, mut taken) = (Progress::default(), HashSet::new());
            for sequence in order {
                let near = sequence > progress.highest - BEHIND;
                let took = progress.take(sequence);
                prop_assert!(!(took && taken.contains(&sequence)), "{sequence} twice");
                if near {
                    prop_assert!(took || taken.contains(&sequence), "{sequence} lost");
                }
                if took {
                    taken.insert(sequence);
                }
            }
        }
    }
}
