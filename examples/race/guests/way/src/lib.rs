//! Factors a number in the way its task names: `trial N`, `fermat N` or `rho N`. Answers `A B`.

use agent::Guest;
use agent::types::Task;

struct Way;

impl Guest for Way {
    fn run(task: Task) -> Result<String, String> {
        let (way, number) = task.text.split_once(' ').ok_or("the task is a way and a number")?;
        let number: u64 = number.parse().map_err(|_| "the task is a way and a number")?;
        if number < 4 {
            return Err(format!("{number} has no factors"));
        }
        let factor = match way {
            "trial" => trial(number),
            "fermat" => fermat(number),
            "rho" => rho(number),
            _ => return Err(format!("there is no way `{way}`")),
        };
        let factor = factor.ok_or("nothing found")?;
        Ok(format!("{factor} {}", number / factor))
    }
}

agent::export!(Way with_types_in agent::world);

/// Every divisor up to the root.
fn trial(number: u64) -> Option<u64> {
    (2..).take_while(|d: &u64| d.checked_mul(*d).is_some_and(|square| square <= number)).find(|d| number % d == 0)
}

/// A difference of two squares: quick where the factors are close to each other, endless where they are not.
fn fermat(number: u64) -> Option<u64> {
    if number % 2 == 0 {
        return Some(2);
    }
    let wide = u128::from(number);
    let mut a = wide.isqrt();
    if a * a < wide {
        a += 1;
    }
    loop {
        let rest = a * a - wide;
        let b = rest.isqrt();
        if b * b == rest {
            let factor = u64::try_from(a - b).ok()?;
            return (factor > 1).then_some(factor);
        }
        a += 1;
    }
}

/// Pollard's: a walk that sooner or later meets itself, sooner modulo a factor.
fn rho(number: u64) -> Option<u64> {
    if number % 2 == 0 {
        return Some(2);
    }
    let wide = u128::from(number);
    for offset in 1..20 {
        let step = |x: u64| u64::try_from((u128::from(x) * u128::from(x) + offset) % wide).unwrap_or(0);
        let (mut slow, mut fast) = (2, 2);
        loop {
            slow = step(slow);
            fast = step(step(fast));
            match gcd(slow.abs_diff(fast), number) {
                1 => {}
                factor if factor == number => break,
                factor => return Some(factor),
            }
        }
    }
    None
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
