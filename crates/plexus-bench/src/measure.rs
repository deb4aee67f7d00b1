//! The trait of a measure, and the loop that runs all of them one after another, so that none
//! disturbs another.

use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;

use crate::figure::Figure;
use crate::sizes::Sizes;

/// One measure. It starts what it needs and leaves nothing running.
#[async_trait(?Send)]
pub trait Measure {
    /// Its name, for `--only`.
    fn name(&self) -> &'static str;

    /// The figures it takes. Each one that is not taken is reported as missing.
    fn keys(&self) -> &'static [&'static str];

    /// Returns why the mode leaves it out, or `None` when the mode includes it.
    fn left_out(&self, _sizes: &Sizes) -> Option<&'static str> {
        None
    }

    /// Measures, and adds each figure as soon as it has it, so that a later error does not lose it.
    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()>;
}

/// Why a measure could not take a figure that needs a rival, which cannot be had here. The run is
/// complete without it.
#[derive(Debug)]
pub struct RivalMissing(pub String);

impl std::fmt::Display for RivalMissing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "its rival cannot be had: {}", self.0)
    }
}

impl std::error::Error for RivalMissing {}

/// A figure that was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Its name in the JSON object.
    pub key: &'static str,
    /// Why.
    pub reason: String,
    /// Whether the run should have taken it; a rival that the mode leaves out is not required.
    pub is_required: bool,
}

/// The results of a run of the benchmarks.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mode.
    pub mode: &'static str,
    /// The figures, in the order of the design.
    pub figures: Vec<Figure>,
    /// The figures that were not taken.
    pub missing: Vec<Missing>,
    /// How long it all took.
    pub took: Duration,
}

/// Runs the measures. An error in one of them leaves its figures missing and does not affect the
/// others.
pub async fn run(measures: &[Box<dyn Measure>], sizes: &Sizes) -> Outcome {
    let started = Instant::now();
    let (mut figures, mut missing) = (Vec::new(), Vec::new());
    for measure in measures {
        let left_out = measure.left_out(sizes);
        let mut taken = Vec::new();
        let result = match left_out {
            Some(reason) => Err(anyhow::anyhow!(reason)),
            None => {
                progress(measure.name(), started);
                measure.run(sizes, &mut taken).await
            }
        };
        let error = result.err();
        let lacks_rival = error.as_ref().is_some_and(|error| error.is::<RivalMissing>());
        let reason =
            error.map_or_else(|| "it was not measured".to_owned(), |error| format!("{error:#}"));
        for key in measure.keys() {
            if !taken.iter().any(|figure| figure.key == *key) {
                missing.push(Missing {
                    key,
                    reason: reason.clone(),
                    is_required: left_out.is_none() && !lacks_rival,
                });
            }
        }
        figures.append(&mut taken);
    }
    Outcome { mode: sizes.mode, figures, missing, took: started.elapsed() }
}

#[expect(
    clippy::print_stderr,
    reason = "a person who waits sees what for; stdout is the report alone"
)]
fn progress(name: &str, started: Instant) {
    eprintln!("[{:>5.1} s] {name}", started.elapsed().as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Aim;

    struct Rivalry(fn() -> anyhow::Error);

    #[async_trait(?Send)]
    impl Measure for Rivalry {
        fn name(&self) -> &'static str {
            "rivalry"
        }

        fn keys(&self) -> &'static [&'static str] {
            &["ours", "ratio"]
        }

        async fn run(&self, _sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
            figures.push(Figure::new("ours", "a", "ms", vec![1.0], Aim::Beside));
            Err(self.0())
        }
    }

    async fn missing_after(error: fn() -> anyhow::Error) -> Vec<Missing> {
        run(&[Box::new(Rivalry(error))], &Sizes::tiny()).await.missing
    }

    #[tokio::test]
    async fn a_missing_rival_is_told_and_fails_nothing() {
        let missing = missing_after(|| RivalMissing("no registry".to_owned()).into()).await;
        let reason = "its rival cannot be had: no registry".to_owned();
        assert_eq!(missing, [Missing { key: "ratio", reason, is_required: false }]);
    }

    #[tokio::test]
    async fn any_other_error_fails_the_run() {
        let missing = missing_after(|| anyhow::anyhow!("the server died")).await;
        assert!(missing.len() == 1 && missing[0].is_required, "{missing:?}");
    }
}
