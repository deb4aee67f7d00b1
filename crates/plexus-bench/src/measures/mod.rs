//! The measures, one file each, in the order of the design.
//!
//! - `answer`: from `respond` to the child, beside poll loops.
//! - `line`: from a child's line to a waiting `poll`.
//! - `first`: the first event of a first chat, with an agent that was started early, and without.
//! - `agents`: a question and a line of each kind of agent.
//! - `throughput`: events of many children (`burst`), beside SQLite alone (`bare`).
//! - `history`: `poll` and paths where there is a lot to read.
//! - `parse`: reading a log, beside other readers.
//! - `parked`: what a parked agent weighs, and how long it takes to wake.
//! - `permits`: what a blocked permit weighs, and how long a start takes with many of them.
//! - `readers`: many readers of one chat, beside a server that serialises for each.
//! - `doors`: `poll` and `respond` at each door, beside a bare handler.
//! - `floods`: the operator's `respond` while somebody floods the server, beside the quiet one.
//! - `nodes`: two servers on one PostgreSQL, beside one, and its events beside PostgreSQL alone
//!   (`bare_postgres`).
//! - `walls`: what a wall adds to a start and to a request, beside none.
//! - `sdks`: the official SDKs with the same child.
//! - `tools`: what a parent that is a model reads before its first turn.

mod agents;
mod answer;
mod bare;
mod bare_postgres;
mod burst;
mod doors;
mod first;
mod floods;
mod history;
mod line;
mod nodes;
mod parked;
mod parse;
mod permits;
mod readers;
mod sdks;
mod throughput;
mod tools;
mod walls;

use crate::measure::Measure;

/// Returns every measure.
#[must_use]
pub fn all() -> Vec<Box<dyn Measure>> {
    vec![
        Box::new(answer::Answer),
        Box::new(line::Line),
        Box::new(first::First),
        Box::new(agents::Agents),
        Box::new(throughput::Throughput),
        Box::new(history::History),
        Box::new(parse::Parse),
        Box::new(permits::Permits),
        Box::new(parked::Parked),
        Box::new(readers::Readers),
        Box::new(doors::Doors),
        Box::new(floods::Floods),
        Box::new(nodes::Nodes),
        Box::new(walls::Walls),
        Box::new(sdks::Sdks),
        Box::new(tools::Tools),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::DESIGN_KEYS;

    #[test]
    fn every_key_of_the_design_is_taken_by_exactly_one_measure() {
        let taken: Vec<&str> = all().iter().flat_map(|measure| measure.keys()).copied().collect();
        for key in DESIGN_KEYS {
            assert_eq!(taken.iter().filter(|taken| *taken == key).count(), 1, "{key}");
        }
    }
}
