//! Planning again: a list of changes names the state that it expects, and is planned anew when that
//! state has changed before the commit.

use plexus_store::StoreError;

/// How often a list of changes is planned again. Enough for an operator who sets modes as fast as
/// they can.
const REPLANS: usize = 16;

/// Counts how often a list of changes was planned again.
#[derive(Debug, Default)]
pub struct Replans(usize);

impl Replans {
    /// Says whether the changes may be planned once more, and counts it.
    pub fn once_more(&mut self) -> bool {
        self.0 += 1;
        self.0 <= REPLANS
    }

    /// Takes the error of a commit: after a conflict the changes are planned again.
    ///
    /// # Errors
    /// Returns every other error, and a conflict that came too often.
    pub fn after(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Conflict { .. } if self.once_more() => Ok(()),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conflicts_are_planned_again_and_not_for_ever() {
        let conflict = || StoreError::Conflict {
            message: "changed".to_owned(),
            standing: serde_json::Value::Null,
        };
        let mut replans = Replans::default();
        for _ in 0..REPLANS {
            replans.after(conflict()).unwrap();
        }
        assert!(matches!(replans.after(conflict()), Err(StoreError::Conflict { .. })));
        assert!(matches!(Replans::default().after(StoreError::Closed), Err(StoreError::Closed)));
    }
}
