//! Runs the stand-in for the Responses API by hand: prints its address and serves until it is
//! stopped.
//!
//! `cargo run -p testkit --example responses_api`, then name that address in the `config.toml` of
//! Codex, as `testkit::real_codex::Sandbox` does. `testkit::responses_api::script` describes what
//! the prompt may contain.

use testkit::responses_api::ResponsesApi;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the address is what this program is for")]
async fn main() -> anyhow::Result<()> {
    let api = ResponsesApi::start().await?;
    println!("{}", api.base_url());
    std::future::pending().await
}
