//! The blocks of a prompt as the text that the server takes.

use acp_lines::send::Block;
use serde_json::Value;

use super::refusal::Refusal;

/// Turns the blocks of a prompt into one text: texts as they are, links as links where they stand,
/// embedded files at the end.
pub(super) fn text_of(blocks: &[Block]) -> Result<String, Refusal> {
    let mut text = String::new();
    let mut embedded = String::new();
    for Block(block) in blocks {
        let field = |name: &str| block[name].as_str();
        match field("type") {
            Some("text") => text.push_str(field("text").ok_or_else(|| lacks("text", "text"))?),
            Some("resource_link") => {
                let uri = field("uri").ok_or_else(|| lacks("resource_link", "uri"))?;
                text.push_str(&link(field("name"), uri));
            }
            Some("resource") => {
                let (uri, content) = resource(&block["resource"])?;
                text.push_str(&link(None, uri));
                embedded.push_str(&format!("\n<context ref=\"{uri}\">\n{content}\n</context>"));
            }
            Some(kind) => {
                return Err(Refusal::params(format!(
                    "a prompt takes text, links and embedded text; this one has a block of type \
                     {kind:?}, which was not announced"
                )));
            }
            None => return Err(Refusal::params("a block of the prompt has no type")),
        }
    }
    text.push_str(&embedded);
    if text.trim().is_empty() {
        return Err(Refusal::params("the prompt is empty"));
    }
    Ok(text)
}

/// A file that travels inside the prompt. Only text can.
fn resource(resource: &Value) -> Result<(&str, &str), Refusal> {
    let uri = resource["uri"].as_str().ok_or_else(|| lacks("resource", "uri"))?;
    match resource["text"].as_str() {
        Some(text) => Ok((uri, text)),
        None => Err(Refusal::params(format!("{uri} is not text, and a prompt takes only text"))),
    }
}

/// A link as the model reads it.
fn link(name: Option<&str>, uri: &str) -> String {
    let last = || uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(uri);
    format!("[@{}]({uri})", name.unwrap_or_else(last))
}

fn lacks(kind: &str, field: &str) -> Refusal {
    Refusal::params(format!("a block of type {kind:?} has no {field:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(blocks: &Value) -> Result<String, Refusal> {
        let blocks: Vec<Block> = serde_json::from_value(blocks.clone()).unwrap();
        text_of(&blocks)
    }

    #[test]
    fn blocks_become_one_text() {
        let link = json!({"type": "resource_link", "uri": "file:///a/b.rs", "name": "b.rs"});
        let embedded = json!({"type": "resource", "resource":
            {"uri": "file:///a/c.rs", "text": "fn c() {}", "mimeType": "text/plain"}});
        for (blocks, expected) in [
            (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
            (json!([{"type": "text", "text": "see "}, link]), "see [@b.rs](file:///a/b.rs)"),
            (
                json!([embedded, {"type": "text", "text": " is odd"}]),
                "[@c.rs](file:///a/c.rs) is odd\n\
                 <context ref=\"file:///a/c.rs\">\nfn c() {}\n</context>",
            ),
        ] {
            assert_eq!(read(&blocks).unwrap(), expected);
        }
    }

    #[test]
    fn what_the_server_cannot_take_is_refused_and_named() {
        for (block, words) in [
            (json!({"type": "image", "mimeType": "image/png", "data": ""}), "\"image\""),
            (json!({"type": "audio", "mimeType": "a/b", "data": ""}), "\"audio\""),
            (json!({"type": "resource", "resource": {"uri": "file:///x", "blob": ""}}), "not text"),
            (json!({"type": "text"}), "no \"text\""),
            (json!({"text": "x"}), "no type"),
            (json!({"type": "text", "text": " \n"}), "empty"),
        ] {
            let refusal = read(&json!([block])).unwrap_err();
            assert!(refusal.message().contains(words), "{refusal:?}");
        }
    }
}
