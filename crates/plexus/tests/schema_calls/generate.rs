//! Parameters from a JSON Schema: ones that it admits, and ones broken in the ways clients break
//! them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// How deep generated values nest; the schemas refer to themselves nowhere deeper.
const DEPTH: usize = 6;

/// A small reproducible source of randomness (SplitMix64): the calls must be the same for the same
/// seed on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// Takes the seed of `PLEXUS_TEST_SEED`, else a new one, and prints it.
    #[expect(clippy::print_stdout, reason = "whoever sees a failure needs the seed")]
    pub(crate) fn seeded() -> Self {
        let given = std::env::var("PLEXUS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_micros() as u64);
        let seed = given.unwrap_or_else(clock);
        println!("PLEXUS_TEST_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn uuid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            a & 0xffff,
            (a >> 16) & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

/// Values that exist on this server, so that calls reach further than "not found".
pub(crate) struct Pool {
    by_name: HashMap<&'static str, Vec<Value>>,
    uuids: Vec<String>,
    mcp_sessions: HashMap<&'static str, String>,
}

impl Pool {
    /// Collects what answers of the server show, by the names of the parameters that take it.
    pub(crate) fn new(answers: &[&Value], work: &str) -> Self {
        let mut pool =
            Self { by_name: HashMap::new(), uuids: Vec::new(), mcp_sessions: HashMap::new() };
        for answer in answers {
            pool.collect("", answer);
        }
        let mut set = |names: &[&'static str], values: Value| {
            for name in names {
                pool.by_name.insert(name, values.as_array().cloned().unwrap_or_default());
            }
        };
        set(
            &["name", "new_name"],
            json!(["own", "below", "parent", "another", "", "a name with spaces"]),
        );
        set(&["working_dir"], json!([work]));
        set(&["add_dirs"], json!([[work], []]));
        // A wait of a minute would take up most of the test.
        set(&["wait_ms"], json!([0, 1, 30]));
        // Short stories, because each starts a process.
        set(&["prompt", "text"], json!(["sim:\nsay hi", "sim:\nexit 3", "sim:\nsay one\nsay two"]));
        // The store is copied only to places below the folder of the test.
        set(
            &["path"],
            json!([format!("{work}/copy.db"), format!("{work}/no/such/folder/copy.db"), "copy.db"]),
        );
        set(&["method"], json!(["claudecode.poll", "plexus.schema", "no.such"]));
        set(&["tool_name"], json!(["Bash", "Write", "mcp__x__y"]));
        set(
            &["input"],
            json!([{"command": "ls"}, {"command": "rm -rf \"$HOME\""}, {"file_path": "/x", "content": "y"}]),
        );
        set(&["pattern"], json!(["Bash(git diff:*)", "Read(/src/**)", "mcp__x__*", "Bash((", "*"]));
        set(&["consumer"], json!(["reader", ""]));
        pool
    }

    fn collect(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                if name == "handle" {
                    self.by_name.entry("handle").or_default().push(value.clone());
                }
                fields.iter().for_each(|(name, value)| self.collect(name, value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(name, item)),
            Value::String(text) if name == "cursor" => {
                self.by_name.entry("cursor").or_default().push(json!(text))
            }
            Value::String(text) if text.len() == 36 => self.uuids.push(text.clone()),
            _ => {}
        }
    }

    pub(crate) fn set_mcp_sessions(&mut self, sessions: Vec<(&'static str, String)>) {
        self.mcp_sessions = sessions.into_iter().collect();
    }

    pub(crate) fn mcp_session(&self, caller: &str) -> &str {
        self.mcp_sessions.get(caller).map_or("", String::as_str)
    }
}

/// Makes the parameters of one call: half of them as the schema says, half with something broken.
pub(crate) fn call(random: &mut Random, pool: &Pool, schema: &Value) -> Value {
    let made = Maker { pool, root: schema }.value(random, "", schema, DEPTH);
    if random.one_in(2) { broken(random, made) } else { made }
}

struct Maker<'a> {
    pool: &'a Pool,
    root: &'a Value,
}

impl Maker<'_> {
    fn value(&self, random: &mut Random, name: &str, schema: &Value, depth: usize) -> Value {
        if let Some(known) = self.pool.by_name.get(name).filter(|known| !known.is_empty())
            && !random.one_in(8)
        {
            return random.pick(known).clone();
        }
        if let Some(path) = schema["$ref"].as_str() {
            let target = self.root.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null);
            return self.value(random, name, target, depth);
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        for choices in ["enum", "anyOf", "oneOf"] {
            if let Some(choices) = schema[choices].as_array().filter(|choices| !choices.is_empty())
            {
                let choice = random.pick(choices);
                return if schema.get("enum").is_some() {
                    choice.clone()
                } else {
                    self.value(random, name, choice, depth)
                };
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) if !kinds.is_empty() => {
                random.pick(kinds).as_str().unwrap_or_default()
            }
            kind => kind.as_str().unwrap_or_default(),
        };
        match kind {
            "object" => self.object(random, schema, depth),
            "array" => {
                let many = if depth == 0 { 0 } else { random.below(4) };
                (0..many).map(|_| self.value(random, "", &schema["items"], depth - 1)).collect()
            }
            "string" => json!(self.text(random, schema)),
            "integer" => integer(random, schema),
            "number" => json!(random.below(100_000) as f64 / 100.0),
            "boolean" => json!(random.one_in(2)),
            "null" => Value::Null,
            _ => json!({"anything": random.below(10)}),
        }
    }

    fn object(&self, random: &mut Random, schema: &Value, depth: usize) -> Value {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mut made = Map::new();
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let wanted = required.contains(&json!(name)) || random.one_in(3);
            if wanted && depth > 0 {
                made.insert(name.clone(), self.value(random, name, inner, depth - 1));
            }
        }
        if schema["additionalProperties"].is_object() && depth > 0 {
            made.insert(
                "KEY".into(),
                self.value(random, "", &schema["additionalProperties"], depth - 1),
            );
        }
        Value::Object(made)
    }

    fn text(&self, random: &mut Random, schema: &Value) -> String {
        if schema["format"] == "uuid" {
            let known = !self.pool.uuids.is_empty() && !random.one_in(4);
            return if known { random.pick(&self.pool.uuids).clone() } else { random.uuid() };
        }
        let texts = [
            "",
            "a",
            "own",
            "Bash(ls:*)",
            "../..",
            "/",
            "\u{0}",
            "🦀 ünïcode",
            "'; DROP TABLE sessions; --",
            "%s%n",
        ];
        (*random.pick(&texts)).to_owned()
    }
}

fn integer(random: &mut Random, schema: &Value) -> Value {
    let least = schema["minimum"].as_i64().unwrap_or(-5);
    match random.below(4) {
        0 => json!(least),
        1 => schema["maximum"].as_u64().map_or(json!(u32::MAX), |most| json!(most)),
        _ => json!(least.saturating_add(random.below(50) as i64)),
    }
}

/// Breaks a value as clients do: a wrong type, one missing, one too many, too large, too deep, not
/// an object at all.
fn broken(random: &mut Random, value: Value) -> Value {
    let Value::Object(mut fields) = value else { return value };
    let names: Vec<String> = fields.keys().cloned().collect();
    if names.is_empty() || random.one_in(6) {
        match random.below(5) {
            0 => return json!([1, 2]),
            1 => return json!("text"),
            2 => return Value::Null,
            _ => drop(fields.insert("no_such_parameter".into(), odd(random))),
        }
        return Value::Object(fields);
    }
    let name = random.pick(&names).clone();
    if random.one_in(4) {
        fields.remove(&name);
    } else {
        // A huge wait is refused at once, but an odd value could be a valid wait of a minute.
        let value = if name == "wait_ms" { json!(u64::MAX) } else { odd(random) };
        fields.insert(name, value);
    }
    Value::Object(fields)
}

fn odd(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(i64::MIN),
        5 => json!(1e300),
        6 => json!("x".repeat(200_000)),
        7 => json!(random.uuid()),
        8 => json!([[], {}, null]),
        9 => json!({"": {"$ref": "#"}}),
        10 => (0..60).fold(json!(1), |inner, _| json!([inner])),
        _ => (0..200).fold(json!(1), |inner, _| json!({"a": inner})),
    }
}
