//! The whole program in its smallest size: every figure of the design is taken, against a real
//! server with simulated children.

#![cfg(target_os = "linux")]

use std::process::Command;

use plexus_bench::figure::{DESIGN_KEYS, KEYS_WITH_RIVAL};
use plexus_bench::thousand::{self, Options};
use serde_json::Value;
use testkit::server::binary;

#[test]
fn a_tiny_run_takes_every_figure_of_the_design() {
    let output = Command::new(env!("CARGO_BIN_EXE_plexus-bench"))
        .args(["--tiny", "--json"])
        .env("PLEXUS_BIN", binary("plexus", "PLEXUS_BIN").unwrap())
        .env("PLEXUS_SIM_BIN", binary("plexus-sim", "PLEXUS_SIM_BIN").unwrap())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let object: Value =
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    for key in DESIGN_KEYS {
        if KEYS_WITH_RIVAL.contains(key) && object[key].is_null() {
            assert!(object["missing"][key].is_string(), "nobody says why {key} is missing");
            continue;
        }
        assert!(object[key].is_f64(), "{key} is {}: {}", object[key], object["missing"]);
        assert!(object[key].as_f64() >= Some(0.0), "{key} is {}", object[key]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_agents_wait_through_a_restart_of_the_machine_and_each_call_runs_once() {
    let options = Options { agents: 20, real: 0, cli: None };
    let report = thousand::run(&options).await.unwrap();
    assert!(report.wrong.is_empty(), "{report}");
    assert_eq!(report.each_s.len(), 20, "{report}");
}
