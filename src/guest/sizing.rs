//! How many guests this machine carries at once: a plain decision from two numbers.

/// Memory maps the rest of the process needs: threads, libraries, databases, compiled code.
const RESERVED_MAPS: u64 = 4096;
/// Maps of one entered guest: its fiber stack and the guard page below it, and its linear memory.
const MAPS_WITH_IMAGE: u64 = 6;
/// The same without a copy-on-write image of the memory's first contents.
const MAPS_WITHOUT_IMAGE: u64 = 4;
/// Maps of a guest that has its memory, tables and stack to itself.
const MAPS_WITHOUT_POOL: u64 = 8;

/// How guests are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Guests that can be live at once.
    pub live: u32,
    /// Whether memories start as copy-on-write images: faster to start, two maps more each.
    pub copy_on_write: bool,
}

impl Sizing {
    /// Plans for `wanted` live guests where the kernel allows the process `free` more memory maps.
    ///
    /// The kernel's ceiling on maps is reached long before memory is. Above it anything at all can fail, with an error
    /// that names nothing, so the pool is never larger than what fits.
    pub fn plan(wanted: u32, free: u64) -> Self {
        let maps = free.saturating_sub(RESERVED_MAPS);
        let wanted = wanted.max(1);
        if u64::from(wanted) <= maps / MAPS_WITH_IMAGE {
            return Self { live: wanted, copy_on_write: true };
        }
        Self { live: most(wanted, maps / MAPS_WITHOUT_IMAGE), copy_on_write: false }
    }

    /// The same for guests without a pool: nothing is set aside, and each takes more maps.
    pub fn without_pool(wanted: u32, free: u64) -> Self {
        Self { live: most(wanted, free.saturating_sub(RESERVED_MAPS) / MAPS_WITHOUT_POOL), copy_on_write: true }
    }
}

fn most(wanted: u32, fit: u64) -> u32 {
    wanted.min(u32::try_from(fit).unwrap_or(u32::MAX)).max(1)
}

/// The kernel's `vm.max_map_count`; its default where it cannot be read.
pub fn max_map_count() -> u64 {
    const DEFAULT: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(DEFAULT)
}

/// How many memory maps the process may still make: other pools, in other runtimes, count.
pub fn free_maps() -> u64 {
    let used = std::fs::read("/proc/self/maps").map_or(0, |maps| maps.iter().filter(|&&byte| byte == b'\n').count());
    max_map_count().saturating_sub(used as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_number_of_sessions_fits_the_default_kernel_with_images() {
        assert_eq!(Sizing::plan(10_000, 65_530), Sizing { live: 10_000, copy_on_write: true });
        assert_eq!(Sizing::plan(15_000, 65_530), Sizing { live: 15_000, copy_on_write: false });
        assert_eq!(Sizing::plan(100_000, 65_530), Sizing { live: 15_358, copy_on_write: false });
        assert_eq!(Sizing::plan(100_000, 1_048_576), Sizing { live: 100_000, copy_on_write: true });
    }

    proptest! {
        #[test]
        fn no_plan_exceeds_the_maps_or_what_is_wanted(wanted in 0_u32..2_000_000, maps in 0_u64..5_000_000) {
            let plan = Sizing::plan(wanted, maps);
            prop_assert!(plan.live >= 1 && plan.live <= wanted.max(1));
            let each = if plan.copy_on_write { MAPS_WITH_IMAGE } else { MAPS_WITHOUT_IMAGE };
            prop_assert!(plan.live == 1 || u64::from(plan.live) * each + RESERVED_MAPS <= maps);
            let plan = Sizing::without_pool(wanted, maps);
            prop_assert!(plan.live >= 1 && plan.live <= wanted.max(1));
            prop_assert!(plan.live == 1 || u64::from(plan.live) * MAPS_WITHOUT_POOL + RESERVED_MAPS <= maps);
        }
    }
}
