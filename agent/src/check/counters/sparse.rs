//! A map from small numbers that grows with what is in it, and is read without a lock.

use std::sync::OnceLock;

const WAYS: usize = 8;

/// Values by number: a trie over the number's digits to base 8, lowest first. A value sits at the first free place on its number's path, so
/// that a few values need one node, whatever their numbers. Nothing is ever taken out.
#[derive(Debug)]
pub(super) struct Sparse<T> {
    places: [Place<T>; WAYS],
}

#[derive(Debug)]
struct Place<T> {
    value: OnceLock<(usize, T)>,
    below: OnceLock<Box<Sparse<T>>>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { places: std::array::from_fn(|_| Place { value: OnceLock::new(), below: OnceLock::new() }) }
    }
}

impl<T> Sparse<T> {
    /// The value of `number`; the first call makes it.
    pub(super) fn get_or_make(&self, number: usize, make: impl Fn() -> T) -> &T {
        let (mut node, mut digits) = (self, number);
        loop {
            let place = &node.places[digits % WAYS];
            let (owner, value) = place.value.get_or_init(|| (number, make()));
            if *owner == number {
                return value;
            }
            // Another number's. Two numbers differ in some digit, so their paths part.
            node = place.below.get_or_init(Box::default);
            digits /= WAYS;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_number_has_a_value_of_its_own_made_once() {
        let (map, made) = (Sparse::default(), Cell::new(0));
        let numbers: Vec<usize> = (0..600).chain([6_000, 1 << 20, (1 << 20) + 1, usize::MAX, usize::MAX - 8]).collect();
        for _ in 0..2 {
            for number in &numbers {
                let value = map.get_or_make(*number, || {
                    made.set(made.get() + 1);
                    *number
                });
                assert_eq!(value, number);
            }
        }
        assert_eq!(made.get(), numbers.len());
    }

    #[test]
    fn a_few_values_take_one_node() {
        let map = Sparse::default();
        // Tier 999 of a rule, two outcomes.
        map.get_or_make(999 * 6, || ());
        map.get_or_make(999 * 6 + 1, || ());
        assert!(map.places.iter().all(|place| place.below.get().is_none()));
    }
}
