//! Reads the examples out of a page of the protocol: under the heading of a method, the first block
//! of JSON that holds a request's parameters and then the answer.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the page shows for one method.
pub(crate) struct Example {
    pub(crate) params: Value,
    pub(crate) answer: Value,
}

/// Every example of the page at `path` (from the root of the workspace), by its method.
pub(crate) fn read(path: &str) -> BTreeMap<String, Example> {
    let page = std::fs::read_to_string(testkit::fixtures::workspace_root().join(path)).unwrap();
    page.split("\n### ").skip(1).filter_map(example).collect()
}

fn example(section: &str) -> Option<(String, Example)> {
    let (method, text) = section.split_once('\n')?;
    let block = text.split("\n```json\n").nth(1)?.split("\n```").next()?;
    let values = serde_json::Deserializer::from_str(block).into_iter::<Value>();
    let values: Vec<Value> =
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{method}: {error}"));
    match <[Value; 2]>::try_from(values) {
        Ok([params, answer]) => Some((method.to_owned(), Example { params, answer })),
        Err(_) => None,
    }
}
