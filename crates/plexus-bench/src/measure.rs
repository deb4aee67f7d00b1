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
        let reason = result
            .err()
            .map_or_else(|| "it was not measured".to_owned(), |error| format!("{error:#}"));
        for key in measure.keys() {
            if !taken.iter().any(|figure| figure.key == *key) {
                missing.push(Missing {
                    key,
                    reason: reason.clone(),
                    is_required: left_out.is_none(),
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
