//! The blocks of a prompt as the text and the images that the server takes.

use acp_lines::send::Block;
use plexus_client::wire::PromptImage;
use serde_json::Value;

use crate::refusal::Refusal;

/// How the type of an image begins.
const IMAGE: &str = "image/";

/// What the server takes of a prompt.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Parts {
    /// The text; images are named where they stand.
    pub(crate) text: String,
    pub(crate) images: Vec<PromptImage>,
}

/// Turns the blocks of a prompt into one text and its images: texts as they are, links as links
/// where they stand, embedded text files at the end. The server refuses what the agent cannot take.
pub(crate) fn parts_of(blocks: &[Block]) -> Result<Parts, Refusal> {
    let mut text = String::new();
    let mut embedded = String::new();
    let mut images: Vec<PromptImage> = Vec::new();
    let mut image = |text: &mut String, kind: &str, data: &str| {
        images.push(PromptImage::new(kind, data));
        text.push_str(&format!("[image {}]", images.len()));
    };
    for Block(block) in blocks {
        let field = |name: &str| block[name].as_str();
        match field("type") {
            Some("text") => text.push_str(field("text").ok_or_else(|| lacks("text", "text"))?),
            Some("resource_link") => {
                let uri = field("uri").ok_or_else(|| lacks("resource_link", "uri"))?;
                text.push_str(&link(field("name"), uri));
            }
            Some("resource") => match resource(&block["resource"])? {
                Resource::Text { uri, content } => {
                    text.push_str(&link(None, uri));
                    embedded.push_str(&format!("\n<context ref=\"{uri}\">\n{content}\n</context>"));
                }
                Resource::Image { uri, kind, data } => {
                    text.push_str(&link(None, uri));
                    image(&mut text, kind, data);
                }
            },
            Some("image") => {
                let kind = field("mimeType").ok_or_else(|| lacks("image", "mimeType"))?;
                let data = field("data").ok_or_else(|| lacks("image", "data"))?;
                image(&mut text, kind, data);
            }
            Some(kind) => {
                return Err(Refusal::params(format!(
                    "a prompt takes text, images, links and embedded text; this one has a block of \
                     type {kind:?}, which was not announced"
                )));
            }
            None => return Err(Refusal::params("a block of the prompt has no type")),
        }
    }
    text.push_str(&embedded);
    if text.trim().is_empty() {
        return Err(Refusal::params("the prompt is empty"));
    }
    Ok(Parts { text, images })
}

/// A file that travels inside the prompt.
enum Resource<'a> {
    Text { uri: &'a str, content: &'a str },
    Image { uri: &'a str, kind: &'a str, data: &'a str },
}

/// Reads such a file: a text or an image, the two kinds that agents can use.
fn resource(resource: &Value) -> Result<Resource<'_>, Refusal> {
    let uri = resource["uri"].as_str().ok_or_else(|| lacks("resource", "uri"))?;
    let kind = resource["mimeType"].as_str().filter(|kind| kind.starts_with(IMAGE));
    match (resource["text"].as_str(), kind, resource["blob"].as_str()) {
        (Some(content), _, _) => Ok(Resource::Text { uri, content }),
        (None, Some(kind), Some(data)) => Ok(Resource::Image { uri, kind, data }),
        (None, _, _) => {
            Err(Refusal::params(format!("{uri} is neither a text nor an image, as prompts take")))
        }
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

    fn read(blocks: &Value) -> Result<Parts, Refusal> {
        let blocks: Vec<Block> = serde_json::from_value(blocks.clone()).unwrap();
        parts_of(&blocks)
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
            assert_eq!(read(&blocks).unwrap(), Parts { text: expected.to_owned(), images: vec![] });
        }
    }

    #[test]
    fn images_are_named_where_they_stand() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let embedded = json!({"type": "resource", "resource":
            {"uri": "file:///a/b.gif", "mimeType": "image/gif", "blob": "AA=="}});
        let blocks = json!([{"type": "text", "text": "is "}, image, {"type": "text", "text": " "},
            embedded]);
        let expected = Parts {
            text: "is [image 1] [@b.gif](file:///a/b.gif)[image 2]".to_owned(),
            images: vec![
                PromptImage::new("image/png", "AAAA"),
                PromptImage::new("image/gif", "AA=="),
            ],
        };
        assert_eq!(read(&blocks).unwrap(), expected);
    }

    #[test]
    fn a_prompt_block_that_cannot_be_sent_is_refused_and_named() {
        for (block, words) in [
            (json!({"type": "image", "data": "AAAA"}), "no \"mimeType\""),
            (json!({"type": "image", "mimeType": "image/png"}), "no \"data\""),
            (json!({"type": "audio", "mimeType": "a/b", "data": ""}), "\"audio\""),
            (json!({"type": "resource", "resource": {"uri": "file:///x", "blob": ""}}), "neither"),
            (json!({"type": "text"}), "no \"text\""),
            (json!({"text": "x"}), "no type"),
            (json!({"type": "text", "text": " \n"}), "empty"),
        ] {
            let refusal = read(&json!([block])).unwrap_err();
            assert!(refusal.message().contains(words), "{refusal:?}");
        }
    }
}
