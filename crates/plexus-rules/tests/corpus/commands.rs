//! Generates the commands of the corpus.

use super::tables::Entry;

/// Options that once got past the rules, or are known to run or write something. Every program is
/// tried with them.
const NOTORIOUS: &[&str] = &[
    "-o",
    "-O",
    "-c",
    "-C",
    "-f",
    "-F",
    "-K",
    "-T",
    "-u",
    "-w",
    "-e",
    "-x",
    "-X",
    "-I",
    "-i",
    "-p",
    "--output",
    "--exec",
    "--config",
    "--eval",
    "--pre",
    "--filter",
    "--to-command",
    "--use-compress-program",
    "--index-file",
    "--upload-pack",
    "--receive-pack",
    "--ext-diff",
    "--textconv",
    "--no-index",
    "--open-files-in-pager",
    "--script-shell",
    "--trace-ascii",
    "--stderr",
    "--libcurl",
    "--etag-save",
    "--hsts",
    "--alt-svc",
    "--files0-from",
    "--compress-program",
    "--rcfile",
    "--init-file",
    "--in-place",
    "--file",
    "--include",
    "--load",
    "--git-dir",
    "--work-tree",
    "--exec-path",
    "--help",
    "--show-signature",
    "--contents",
    "--orderfile",
    "-S",
    "-G",
    "-L",
    "-R",
    "-d",
    "-D",
    "-P",
    "-l",
    "-n",
    "-m",
    "-t",
];

/// Returns values that make an argument reach outside the directory, run something, or change the
/// meaning of the next word.
fn values(outside: &str) -> Vec<String> {
    let ran = format!("{outside}/ran");
    [
        format!("{outside}/secret"),
        "../outside/secret".into(),
        "link".into(),
        "linkdir/secret".into(),
        "linkdir".into(),
        "..".into(),
        "src/../../outside/secret".into(),
        format!("touch {ran}"),
        format!("!touch {ran}"),
        format!("|touch {ran}"),
        format!("$(touch {ran})"),
        format!("`touch {ran}`"),
        format!("; touch {ran} #"),
        format!("1e touch {ran}"),
        format!("BEGIN{{system(\"touch {ran}\")}}"),
        format!("a[$(touch {ran})]"),
        format!("%(touch {ran})%G?"),
        format!("@{outside}/secret"),
        format!("file://{outside}/secret"),
        format!("x={outside}/secret"),
        "./evil".into(),
        "./vendor/evil.git".into(),
        "evil".into(),
        "WRITTEN".into(),
        ".git/config".into(),
        ".git/hooks/pre-commit".into(),
        "src/a.txt".into(),
        "HEAD".into(),
        "main".into(),
        "1".into(),
        "x".into(),
        "-".into(),
    ]
    .into()
}

/// The sampled commands of one entry.
pub(crate) struct Corpus {
    /// How many were generated.
    pub(crate) made: usize,
    /// Those that were sampled.
    pub(crate) taken: Vec<String>,
}

/// Generates the commands for one entry of the tables, and samples at most about `most` of them,
/// evenly spaced. `help` holds the options that the program itself lists.
pub(crate) fn of(entry: &Entry, help: &[String], outside: &str, most: usize) -> Corpus {
    let mut made = 0_usize;
    make(entry, help, outside, &mut |_| made += 1);
    let step = made.div_ceil(most.max(1)).max(1);
    // Each entry starts at another offset, so that they do not all sample the same positions.
    let start = entry.name().bytes().map(usize::from).sum::<usize>() % step;
    let (mut at, mut taken) = (0_usize, Vec::new());
    make(entry, help, outside, &mut |words| {
        at += 1;
        if at % step == start {
            let quoted = words.iter().enumerate().map(|(i, word)| quoted(word, at + i));
            taken.push([entry.name()].into_iter().chain(quoted).collect::<Vec<_>>().join(" "));
        }
    });
    let mut lines = lines(entry, outside);
    made += lines.len();
    shuffle(&mut lines, &entry.name());
    lines.truncate(most / LINES_IN_SAMPLE);
    taken.append(&mut lines);
    shuffle(&mut taken, &entry.name());
    Corpus { made, taken }
}

/// One command in this many of a sample is a line with a construct of the shell.
const LINES_IN_SAMPLE: usize = 4;

/// Returns the command in lines with variables, substitutions, here-documents, tests, loops,
/// redirections, `xargs` and `cd`, in which a hostile value stands where it may do harm.
fn lines(entry: &Entry, outside: &str) -> Vec<String> {
    let name = entry.name();
    let mut lines = Vec::new();
    for value in values(outside) {
        let quoted = quoted(&value, 2);
        let here = format!("\"$(cat <<'EOF'\n{value}\nEOF\n)\"");
        let expanded = format!("\"$(cat <<EOF\n{value}\nEOF\n)\"");
        lines.extend([
            format!("CI={quoted} {name} src/a.txt"),
            format!("LANGUAGE={value} {name} f"),
            format!("RUST_LOG={quoted} {name}"),
            format!("{name} {here}"),
            format!("{name} src/a.txt {here}"),
            format!("{name} {expanded}"),
            format!("{name} \"$(echo {quoted})\""),
            format!("{name} \"x$(echo {quoted})\""),
            format!("echo \"$({name} {quoted})\""),
            format!("{name} \"${{x:-{value}}}\""),
            format!("[ -f {quoted} ] && {name} src/a.txt"),
            format!("[ -n \"$({name} {quoted})\" ] && echo x"),
            format!("[[ -e {quoted} ]] && {name} {quoted}"),
            format!("if [ {quoted} = x ]; then {name} f; else {name} {quoted}; fi"),
            format!("for f in {quoted} src/a.txt; do {name} \"$f\"; done"),
            format!("for f in {quoted}; do {name} $f; done"),
            format!("for f in {value}*; do {name} \"$f\"; done"),
            format!("for name in x {quoted}; do {name} \"src/$name\" \"$name\"; done"),
            format!("{name} < {quoted}"),
            format!("{name} f < {value}"),
            format!("{name} <(cat {quoted})"),
            format!("find {quoted} | xargs {name}"),
            format!("find src | xargs {name} {quoted}"),
            format!("grep -rl e src | sort | xargs -n 1 {name} {quoted}"),
            format!("printf '%s\\n' {quoted} | xargs {name}"),
            format!("cd {quoted} && {name} src/a.txt"),
            format!("cd {value} && {name} f"),
            format!("cd src && {name} {quoted}"),
            format!("cd src; {name} {quoted} || {name} ../f"),
            format!("(cd src && {name} a.txt); {name} {quoted}"),
            format!("set -e; {name} {quoted}; echo $?"),
        ]);
    }
    lines
}

/// How many values are tried on an option that no table names: somebody is asked about it with any
/// value.
const VALUES_OF_OTHERS: usize = 6;
/// In how many of its forms an option gets each value. The choice of forms rotates.
const FORMS: usize = 4;

fn make(entry: &Entry, help: &[String], outside: &str, add: &mut dyn FnMut(&[&str])) {
    let values = values(outside);
    let listed: Vec<&str> = entry.options.iter().map(|token| bare(token)).collect();
    let others = help.iter().map(String::as_str).chain(NOTORIOUS.iter().copied());
    let mut others: Vec<&str> = others.filter(|option| !listed.contains(option)).collect();
    others.sort_unstable();
    others.dedup();
    let mut turn = 0;
    let all = listed.iter().map(|option| (option, values.len()));
    let all = all.chain(others.iter().map(|option| (option, VALUES_OF_OTHERS)));
    for (option, values_of_it) in all.filter(|(option, _)| **option != "--") {
        add(&[option]);
        add(&[option, "src/a.txt"]);
        let spellings = spellings(option);
        for value in values.iter().cycle().skip(turn % values.len()).take(values_of_it) {
            for _ in 0..FORMS {
                turn += 1;
                let name = spellings[turn % spellings.len()].as_str();
                let equals = if name.starts_with("--") { "=" } else { "" };
                let joined = format!("{name}{equals}{value}");
                let forms = [
                    &[name, value][..],
                    &[joined.as_str(), "src/a.txt"],
                    &[name, value, "src/a.txt"],
                    &["src/a.txt", name, value],
                    &[joined.as_str()],
                    &[name, "src/a.txt", value],
                    &["--", name, value],
                ];
                add(forms[turn % forms.len()]);
            }
        }
    }
    for value in &values {
        add(&[value]);
        add(&["--", value]);
        for other in &values {
            turn += 1;
            match turn % 3 {
                0 => add(&[value, other]),
                1 => add(&[value, "--", other]),
                _ => add(&["src/a.txt", value, other]),
            }
        }
    }
}

/// Returns the name of an option, without the table's notation for its argument.
fn bare(token: &str) -> &str {
    let name = token.split("[=").next().unwrap_or(token);
    let name =
        name.split_once('=').filter(|(name, _)| name.len() > 1).map_or(name, |(name, _)| name);
    if name == "-NUM" {
        "-3"
    } else {
        name.strip_suffix(['!', '@']).filter(|it| !it.is_empty()).unwrap_or(name)
    }
}

/// Returns an option by its name, by an abbreviation, and combined with other letters.
fn spellings(option: &str) -> Vec<String> {
    let mut spellings = vec![option.to_owned()];
    match option.strip_prefix("--") {
        Some(name) if name.len() > 3 && name.is_ascii() => {
            spellings.push(format!("--{}", &name[..name.len() - 1]));
            spellings.push(format!("--{}", &name[..3]));
        }
        Some(_) => {}
        None => {
            if let Some(letter) = option.strip_prefix('-').filter(|it| it.len() == 1) {
                spellings.push(format!("-n{letter}"));
                spellings.push(format!("-a{letter}"));
            }
        }
    }
    spellings
}

/// Writes a word in one of the ways that a shell reads it.
fn quoted(word: &str, way: usize) -> String {
    let single = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let escaped = |text: &str| -> String {
        let special = |c: char| !(c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
        text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
    };
    let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(at, _)| at);
    let (start, end) = word.split_at(middle);
    match way % 7 {
        0 | 1 => escaped(word),
        2 => single(word),
        3 => {
            let inner: String = word
                .chars()
                .flat_map(|c| "\"\\$`".contains(c).then_some('\\').into_iter().chain([c]))
                .collect();
            format!("\"{inner}\"")
        }
        4 => format!("{}{}", escaped(start), single(end)),
        5 => format!("{}*", if word.is_empty() { String::new() } else { single(word) }),
        _ => match end.chars().next() {
            Some(c) if c.is_ascii_alphanumeric() => {
                format!("{}[{c}]{}", escaped(start), escaped(&end[1..]))
            }
            _ => escaped(word),
        },
    }
}

/// Puts the commands in an order that is the same on every machine.
fn shuffle(commands: &mut [String], seed: &str) {
    let mut state = seed.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for at in (1..commands.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (at as u64 + 1)).unwrap();
        commands.swap(at, other);
    }
}
