//! A budget is kept also by a server that is killed: what was set aside stays so, and what ended
//! meanwhile is counted.

use std::time::Instant;

use serde_json::{Value, json};

use crate::simulated_server::{DEADLINE, SimulatedServer};

pub(crate) async fn a_fan_out_of_twenty_stays_within_one_result_of_its_budget_when_the_server_is_killed()
 {
    let mut setup = SimulatedServer::new().await;
    let priced = setup.create("price", json!({})).await;
    setup.chat(&priced, "sim:\nsay hello").await;
    setup.end(&priced).await;
    let one = spent(&setup, &priced).await;
    let limit = one * 5.5;
    let top = setup.create("top", json!({"can_spawn": true, "budget": {"cost_usd": limit}})).await;
    let mut children = Vec::new();
    for n in 0..20 {
        children.push(setup.create(&format!("c{n}"), json!({"parent": top, "env": {}})).await);
    }
    let began = Instant::now();
    let mut kills = 0;
    loop {
        let mut forbidden = 0;
        for child in &children {
            let prompt = json!({"session_id": child, "prompt": "sim:\nsay one\nsleep 150"});
            let token = setup.server.token().unwrap().to_owned();
            match setup.server.call_as(&token, "claudecode.chat_async", prompt).await.unwrap() {
                Err(error) if error.kind() == "forbidden" => forbidden += 1,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), "busy", "{error}"),
            }
        }
        let used_up = forbidden == children.len();
        if used_up && kills == 2 {
            break;
        }
        // Killed while children run, twice: the first time with one, then with several. They go on,
        // and end while nobody looks. On a slow machine all of it may be used up meanwhile; then
        // the second server dies with that on record.
        if kills < 2 && (used_up || spent(&setup, &top).await >= one * f64::from(kills)) {
            kills += 1;
            setup.server.kill_9().unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            setup.server.start_again().await.unwrap();
        }
        assert!(began.elapsed() < DEADLINE, "the budget is never used up\n{}", setup.server.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for child in &children {
        let status = shown(&setup, child).await["status"].clone();
        assert!(status != "running", "{child} runs although nothing is left");
    }
    let total = spent(&setup, &top).await;
    assert!(total >= limit && total < limit + one, "{total} of {limit}, one result being {one}");
    assert_eq!(shown(&setup, &top).await.get("reserved"), None, "nothing stays set aside");
}

async fn shown(setup: &SimulatedServer, session: &str) -> Value {
    setup.call("claudecode.get", json!({"session_id": session})).await["session"].clone()
}

async fn spent(setup: &SimulatedServer, session: &str) -> f64 {
    shown(setup, session).await["spent"]["cost_usd"].as_f64().unwrap()
}
