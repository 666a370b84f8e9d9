//! Faults that can be made to strike at named points.

/// A seeded schedule of faults.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    rules: Vec<()>,
}

impl Plan {
    /// Whether no fault can strike.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
