//! Counts the primes from one number up to another: the task is `FROM TO`.

use agent::Guest;
use agent::types::Task;

struct Primes;

impl Guest for Primes {
    fn run(task: Task) -> Result<String, String> {
        let (from, to) = task.text.split_once(' ').ok_or("the task is two numbers")?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        Ok((number(from)?..number(to)?).filter(|&n| is_prime(n)).count().to_string())
    }
}

agent::export!(Primes with_types_in agent::world);

fn is_prime(n: u64) -> bool {
    n > 1 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)
}
