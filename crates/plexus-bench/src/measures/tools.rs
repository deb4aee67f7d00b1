//! Measures what a model as parent reads before its first turn: the names, descriptions and input
//! schemas of its tools.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::doors::caller::{Caller, Way};
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::{Server, text};
use crate::sizes::Sizes;

/// The largest default list of tools that the design allows.
const MOST_BYTES: f64 = 12_288.0;

/// The most tools that it may name.
const MOST_TOOLS: f64 = 12.0;

pub(super) struct Tools;

#[async_trait(?Send)]
impl Measure for Tools {
    fn name(&self) -> &'static str {
        "tools"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["tools_bytes", "tools_listed"]
    }

    async fn run(&self, _sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start(&[]).await?;
        let token =
            text(&server.call("identity.parent", json!({"name": "model"})).await?, "token")?;
        let caller = Caller::connect(Way::Mcp, &server.address()?, &token).await?;
        let (short, full) = (caller.tools("").await?, caller.tools("?tools=full").await?);
        let what = "names, descriptions and input schemas of a parent's default list of tools";
        let bytes = vec![weight(&short)?];
        figures.push(
            Figure::new("tools_bytes", what, "bytes", bytes, Aim::AtMost(MOST_BYTES)).beside(
                "the full list",
                &[weight(&full)?],
                "bytes",
            ),
        );
        let (count, all) = (vec![short.len() as f64], [full.len() as f64]);
        let what = "tools of a parent's default list";
        figures.push(
            Figure::new("tools_listed", what, "tools", count, Aim::AtMost(MOST_TOOLS)).beside(
                "the full list",
                &all,
                "tools",
            ),
        );
        Ok(())
    }
}

/// Adds up the bytes that a model reads of each tool.
fn weight(tools: &[Value]) -> Result<f64> {
    let mut bytes = 0;
    for tool in tools {
        bytes += text(tool, "name")?.len() + text(tool, "description")?.len();
        let schema = tool.get("inputSchema").context("a tool without an input schema")?;
        bytes += schema.to_string().len();
    }
    Ok(bytes as f64)
}
