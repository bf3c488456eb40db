//! Edges that were worked out before: they hold until the window is over, and a check asks for them anew each time.

use std::cell::RefCell;

use super::{Calendar, Edges};

/// The most calendars that a thread remembers; rules of one domain rarely have more than a few.
const MOST: usize = 32;

thread_local! {
    static KNOWN: RefCell<Vec<(Calendar, Edges)>> = const { RefCell::new(Vec::new()) };
}

/// The edges around `now_us`, from `work_out` if this thread does not know them.
pub(super) fn edges(calendar: Calendar, now_us: u64, work_out: impl FnOnce() -> Edges) -> Edges {
    KNOWN.with_borrow_mut(|known| {
        let place = known.iter().position(|(other, _)| *other == calendar);
        if let Some((_, edges)) = place.map(|place| known[place])
            && edges[1] <= now_us
            && now_us < edges[2]
        {
            return edges;
        }
        let edges = work_out();
        match place {
            Some(place) => known[place].1 = edges,
            None => {
                if known.len() >= MOST {
                    known.remove(0);
                }
                known.push((calendar, edges));
            }
        }
        edges
    })
}
