//! A bounded, fair sample of an unbounded stream.

use rand::RngExt as _;

/// Keeps at most a fixed number of the values offered since the last drain, each with equal chance (reservoir sampling: the n-th value
/// replaces a random kept one with probability size/n).
#[derive(Debug)]
pub(super) struct Reservoir<T> {
    size: usize,
    kept: Vec<T>,
    offered: u64,
}

impl<T> Reservoir<T> {
    pub(super) fn new(size: usize) -> Self {
        Self { size, kept: Vec::new(), offered: 0 }
    }

    /// Offers a value, which is made only if it is kept.
    pub(super) fn offer(&mut self, make: impl FnOnce() -> T) {
        self.offered += 1;
        if self.kept.len() < self.size {
            self.kept.push(make());
            return;
        }
        let place = usize::try_from(rand::rng().random_range(0..self.offered)).unwrap_or(usize::MAX);
        if let Some(slot) = self.kept.get_mut(place) {
            *slot = make();
        }
    }

    /// Gives out what was kept, each with the number of offered values that it stands for.
    pub(super) fn drain(&mut self, mut take: impl FnMut(T, f64)) {
        #[allow(clippy::cast_precision_loss, reason = "a weight need not be exact beyond 2^53")]
        let weight = self.offered as f64 / self.kept.len().max(1) as f64;
        for value in self.kept.drain(..) {
            take(value, weight);
        }
        self.offered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_and_its_weights_add_up() {
        let mut reservoir = Reservoir::new(8);
        let mut made = 0u32;
        for i in 0..10_000 {
            reservoir.offer(|| {
                made += 1;
                i
            });
        }
        let (mut kept, mut total) = (Vec::new(), 0.0);
        reservoir.drain(|value, weight| {
            kept.push(value);
            total += weight;
        });
        assert_eq!(kept.len(), 8);
        assert!((total - 10_000.0).abs() < 1e-6, "{total}");
        // 8 * (1 + ln(10000/8)) values are made on average, about 65: what is not kept costs next to nothing.
        assert!(made < 1_000, "{made}");
        reservoir.drain(|_, _| panic!("already empty"));
    }

    #[test]
    fn few_values_are_all_kept_with_weight_one() {
        let mut reservoir = Reservoir::new(8);
        for i in 0..3 {
            reservoir.offer(|| i);
        }
        let mut seen = Vec::new();
        reservoir.drain(|value, weight| seen.push((value, weight)));
        assert_eq!(seen, [(0, 1.0), (1, 1.0), (2, 1.0)]);
    }

    #[test]
    fn a_reservoir_of_size_zero_keeps_nothing() {
        let mut reservoir = Reservoir::new(0);
        reservoir.offer(|| panic!("nothing is to be made"));
        reservoir.drain(|(): (), _| panic!("nothing was kept"));
    }
}
