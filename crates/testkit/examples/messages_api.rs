//! Runs the stand-in for the Messages API by hand: prints its address and serves until it is
//! stopped.
//!
//! `cargo run -p testkit --example messages_api`, then start the CLI with `ANTHROPIC_BASE_URL` set
//! to that address. `testkit::messages_api::script` describes what the prompt may contain. With
//! `-v` each request is printed as one line of JSON.

use testkit::messages_api::MessagesApi;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the address is what this program is for")]
async fn main() -> anyhow::Result<()> {
    let verbose = std::env::args().any(|argument| argument == "-v");
    let api = MessagesApi::start().await?;
    println!("{}", api.base_url());
    let mut seen = 0;
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let requests = api.requests();
        for request in requests.iter().skip(seen).filter(|_| verbose) {
            println!(
                "{}",
                serde_json::json!({"path": request.path, "main": request.is_main(), "body": request.body})
            );
        }
        seen = requests.len();
    }
}
