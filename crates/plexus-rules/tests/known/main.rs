//! Prefix rules and the tables of known arguments: a test for each defect found, with the command
//! that got past.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

#[path = "../common/mod.rs"]
mod common;
mod denied;
mod git;
mod objects;

use std::os::unix::fs::symlink;
use std::path::Path;

use common::{allows, session};
use plexus_rules::{Call, Decision, RealPaths, RuleSet, Ruling, is_edit_inside, notation, suggest};
use serde_json::{Value, json};

/// A working directory with a project in it, beside a file that does not belong to the project.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir_all(work.join("src")).unwrap();
        std::fs::create_dir_all(work.join("linked")).unwrap();
        std::fs::create_dir_all(work.join("vendor")).unwrap();
        make_repository(&work);
        for file in ["f", "data.txt", "src/a.rs", "src/b.rs", "linked/plain"] {
            std::fs::write(work.join(file), "text\n").unwrap();
        }
        std::fs::write(folder.path().join("secret"), "secret\n").unwrap();
        symlink(folder.path().join("secret"), work.join("linked/out")).unwrap();
        symlink(folder.path(), work.join("up")).unwrap();
        Self { folder }
    }

    fn call<T>(&self, tool_name: &str, input: &Value, body: impl FnOnce(&Call<'_>) -> T) -> T {
        let work = self.folder.path().join("work");
        body(&Call {
            tool: &notation::read(tool_name, input),
            working_dir: &work,
            home: Some(self.folder.path()),
            session: session(2),
            ancestors: &[session(1)],
            now: 1000,
            paths: &RealPaths,
        })
    }

    fn bash(&self, rules: &RuleSet, command: &str) -> Ruling {
        self.call("Bash", &json!({ "command": command }), |call| rules.decide(call))
    }
}

/// Makes what git takes for a repository.
fn make_repository(dir: &Path) {
    for name in ["objects", "refs"] {
        std::fs::create_dir_all(dir.join(".git").join(name)).unwrap();
    }
    std::fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
}

/// Makes rules for the programs of a list, with any arguments.
fn any_arguments(programs: &[&str]) -> RuleSet {
    let patterns: Vec<String> = programs.iter().map(|it| format!("Bash({it}:*)")).collect();
    allows(&patterns)
}

fn assert_all(rules: &RuleSet, commands: &[&str], expected: Decision) {
    let place = Project::new();
    let wrong: Vec<_> = commands
        .iter()
        .map(|command| (*command, place.bash(rules, command)))
        .filter(|(_, verdict)| verdict.decision != expected)
        .map(|(command, verdict)| (command, verdict.decision, verdict.why))
        .collect();
    assert!(wrong.is_empty(), "not {expected:?}: {wrong:#?}");
}

/// Every program that a rule can be written for here.
const PROGRAMS: &[&str] = &[
    "awk", "make", "sed", "sqlite3", "git", "npm", "curl", "wget", "uniq", "tree", "tar", "split",
    "cat", "ls", "head", "wc", "grep", "rg", "find", "diff", "sort", "cargo", "pytest", "python",
    "node", "echo", "xxd", "date", "jq", "mkdir", "rm", "touch", "tee", "fd", "kubectl", "docker",
    "go", "strings", "mypy", "test", "printf", "env", "ps", "cp", "perl", "mv", "chmod", "gh",
    "less", "bash", "sh", "sudo", "timeout", "xargs", "column", "tail", "cut", "tr", "file",
    "stat", "[", "unzip",
];

#[test]
fn a_word_with_a_glob_is_checked_like_any_other() {
    assert_all(
        &any_arguments(PROGRAMS),
        &[
            r#"awk B'EGIN{system("touch X")}#'*"#,
            "make test CC='touch X #'*",
            r"sed 1etouch\ X* 5p f",
            "sqlite3 d .s'hell touch X #'*",
            "git con[f]ig alias.x '!touch X'",
            "git dif[f] --output=x",
            "git diff -*",
            "cat linked/*",
            "cat up/*",
            "cat linked/o?t",
            "cat .*",
            "cat ./.?",
            "grep -r x linked/*",
            "cat up/secre*",
            "wc -l ../*",
            "cat /etc/pass*",
            "cat ~/secre*",
            "head -n f*",
            "head --lines=f*",
            "grep --regexp=f* src/a.rs",
            "grep --inc*=x -r x .",
            "grep --include=x -r x . -- --include=*",
            "git diff --output=f*",
            "grep f* src/a.rs",
            "uniq [fs]*",
            "rm src/*",
        ],
        Decision::Ask,
    );
    assert_all(
        &any_arguments(PROGRAMS),
        &[
            "cat src/*.rs",
            "wc -l d*",
            "ls *.txt",
            "ls [a-f]*.txt",
            "grep -n x src/*",
            "git diff src/*",
            "cat linked/p*",
            "echo src/*",
        ],
        Decision::Allow,
    );
}

#[test]
fn a_pattern_that_a_name_with_a_dash_fits_is_asked() {
    let place = Project::new();
    let rules = any_arguments(&["cat", "echo"]);
    assert_eq!(place.bash(&rules, "cat *").decision, Decision::Ask, "a link leads out");
    std::fs::remove_file(place.folder.path().join("work/up")).unwrap();
    assert_eq!(place.bash(&rules, "cat *").decision, Decision::Allow);
    std::fs::write(place.folder.path().join("work/-n"), "").unwrap();
    assert_eq!(place.bash(&rules, "cat *").decision, Decision::Ask);
    assert_eq!(place.bash(&rules, "cat ?n").decision, Decision::Ask);
    assert_eq!(place.bash(&rules, "cat [-]n").decision, Decision::Ask);
}

#[test]
fn an_option_is_known_by_its_whole_name_only() {
    assert_all(
        &any_arguments(PROGRAMS),
        &[
            "npm run build --scrip=./evil.sh",
            "npm run build --script-shell=./evil.sh",
            "make test --ev '$(shell touch X)'",
            "make test --eval='$(shell touch X)'",
            "curl --confi f http://example.org",
            "wget --conf=f",
            "sed -n -l 5p '1e touch X' f",
            "git diff --outpu=x",
            "git diff --out x",
            "sort --out=x f",
            "grep --fil=f x",
            "ls --colo",
            "cargo test --conf x",
            "pytest --pdbc x",
        ],
        Decision::Ask,
    );
}

#[test]
fn programs_that_were_thought_only_to_show_show_only() {
    assert_all(
        &any_arguments(PROGRAMS),
        &[
            "uniq f OUT",
            "tree -o f",
            "tree -of",
            "git clone -u ./evil x",
            "git archive -o/tmp/z HEAD",
            "tar cIf 'sh -c touch' x",
            "tar --index-file=x -tf f",
            "tar tf host:file",
            "unzip -l 'linked/*'",
            "unzip -l 'linked/o?t'",
            "split --filter='touch X' f",
            "curl --trace-ascii f http://example.org",
            "curl --stderr f http://example.org",
            "curl --libcurl f http://example.org",
            "curl --etag-save f http://example.org",
            "curl --hsts f http://example.org",
            "curl --alt-svc f http://example.org",
            "curl -w %output{x} http://example.org",
            "curl -H @f http://example.org",
            "curl -so f http://example.org",
            "curl file:///etc/passwd",
            "git diff /dev/null /etc/shadow",
            "git diff f ../secret",
            "git diff up/secret f",
            "git push ./vendor/evil.git",
            "git push vendor main",
            "git fetch vendor",
            "git log --format=%G?",
            "git log --show-signature",
            "git reflog delete HEAD@1",
            "git push origin +main",
            "git push --force",
            "git push origin --delete main",
            "xxd f OUT",
            "date 010203042020",
            "cat /etc/passwd",
            "cat ../secret",
            "cat up/secret",
            "cat linked/out",
            "ls ..",
            "grep x /etc/passwd",
            "grep -e x /etc/passwd",
            "grep -ex f /etc/passwd",
            "grep -f /etc/passwd f",
            "grep -R x .",
            "rg --files /etc",
            "rg --pre ./evil x",
            "rg -L x",
            "fd -x rm",
            "fd -l",
            "find -L . -name x",
            "find . -fprintf x y",
            "find -- -fprint ./evil",
            "find -- . -delete",
            "find .. -name x",
            "diff src linked",
            "diff -r src linked",
            "column -t ../secret",
            "awk '{print}' -F ../secret",
            "awk '{print}' ../secret",
            "awk 'BEGIN{ARGV[1]=\"../secret\"} {print}' f",
            "awk -f f",
            "jq env f",
            "jq -f f",
            "jq 'import \"a\" as a; .' f",
            "strings @f",
            "mypy @f",
            "pytest @f",
            "pytest -p evil",
            "make CC=evil test",
            "make -f evil",
            "make -C vendor",
            "npm run build -- --evil",
            "npm run build evil",
            "npm exec evil",
            "npm test --prefix vendor",
            "cargo test --config x",
            "cargo test --manifest-path vendor/Cargo.toml",
            "cargo run -- x",
            "cargo clippy -- -Clinker=evil",
            "python -c x",
            "python evil.py",
            "node evil.js",
            "perl -e x",
            "test -v 'a[$(touch X)]'",
            "printf -v x y",
            "mkdir .git/hooks",
            "touch ../x",
            "touch up/x",
            "rm -rf ..",
            "rm -rf .",
            "rm f ../x",
            "mv f .git/hooks/pre-commit",
            "tee .git/config",
            "tee .bashrc",
            "tee package.json",
            "mv f CLAUDE.md",
            "touch src/conftest.py",
            "mkdir -p .github/workflows",
            "tee linked/out",
            "chmod +x linked/out",
            "cp -r src x",
            "cp f src",
            "cp f ../x",
            "cp ../secret x",
            "cp f up/x",
            "cp f .git/config",
            "kubectl get -f x",
            "kubectl --kubeconfig x get pods",
            "docker run x",
            "docker top c axeww",
            "docker top c e",
            "go run .",
            "go build -toolexec evil",
            "env",
            "env x=y f",
            "ps auxe",
            "xargs cat",
            "sudo cat ../secret",
            "timeout 5 cat ../secret",
            "bash -c 'cat ../secret'",
        ],
        Decision::Ask,
    );
}

#[test]
fn usual_work_is_not_asked_about() {
    assert_all(
        &any_arguments(PROGRAMS),
        &[
            "git diff",
            "git diff --stat HEAD~1",
            "git diff -U5 --cached -- src",
            "git diff main...feature/x -- src/a.rs",
            "git status -sb",
            "git log --oneline -n 5",
            "git log -5 --graph --decorate --all",
            "git log --since='2 weeks ago' --author=me -p src",
            "git log --pretty=format:'%h %s' -S needle",
            "git show HEAD:src/a.rs",
            "git blame -L 1,5 src/a.rs",
            "git branch -a",
            "git grep -n TODO -- src",
            "git add -A",
            "git commit -am 'a message: with /things'",
            "git push -u origin feature/x",
            "git fetch origin",
            "git stash list",
            "git remote -v",
            "git rev-parse --abbrev-ref HEAD",
            "npm test",
            "npm run build",
            "npm run lint --silent",
            "cargo test",
            "cargo test --workspace --all-features some_test -- --nocapture --test-threads=1",
            "cargo clippy --all-targets -- -D warnings",
            "cargo build --release -p x",
            "pytest -x -q tests/test_a.py::test_b -k 'a and not b'",
            "python -m pytest -v",
            "ls -la src",
            "ls --color=never",
            "cat src/a.rs f",
            "head -20 f",
            "head -n 20 f",
            "tail -n +5 f",
            "wc -l f",
            "grep -rn 'fn main' src",
            "grep -E -i -A3 'a|b' f",
            "grep --include='*.rs' -r x .",
            "grep --include=*.rs -r x .",
            "rg -n --glob '*.rs' 'fn main' src",
            "rg -tr x",
            "find . -name '*.rs' -not -path './target/*'",
            "find src -type f -maxdepth 2",
            "sed -n 1,20p f",
            "sed -e 's/a/b/g' f",
            "awk -F: '{print $1}' f",
            "jq -r '.a[] | .b' f",
            "sort -u f",
            "uniq -c f",
            "cut -d: -f1 f",
            "diff f data.txt",
            "tree -L 2",
            "make test -j4",
            "make -j 4 all",
            "go test ./... -run TestX -count=1",
            "docker ps -a",
            "kubectl get pods -n default -o wide",
            "curl -sSL https://example.org/x",
            "mkdir -p src/new",
            "rm -f src/a.rs",
            "touch src/new.rs",
            "date +%F",
            "echo -n \"a b\" 'c'",
            "grep x f | sort | uniq -c | head -5",
            "timeout 5 git status",
            "test -f f && cat f",
            "[ -f f ] && echo yes",
            "cat ~/work/f",
        ],
        Decision::Allow,
    );
}

#[test]
fn no_option_hides_as_the_value_of_another() {
    let rules = any_arguments(PROGRAMS);
    let hidden = [
        "git log --format --output=x",
        "git show --format --output=f",
        "git reflog show --format --output=f",
        "git diff-tree --format --output=f HEAD",
        "git rev-list -L --output=f HEAD",
        "git log --author --output=f",
        "grep -e --file=x f",
        // xxd looks at one letter of a word, tree takes values from later words.
        "xxd -bc 5 f",
        "tree -Po f x",
        "tree -P -o x",
    ];
    assert_all(&rules, &hidden, Decision::Ask);
    let plain = [
        "git log --format=%h",
        "git log --author x",
        "git log -L 1,5:f",
        "head -n -5 f",
        "xxd -c 8 f",
        "tree -L 2 -P x src",
    ];
    assert_all(&rules, &plain, Decision::Allow);
}

#[test]
fn no_file_that_the_line_makes_becomes_an_option() {
    let rules = any_arguments(PROGRAMS);
    let made = [
        "touch -- -x",
        "touch -- '-e1e touch X'",
        "touch ./-x/y",
        "tee -- -x",
        "touch -- '-e1e touch X' && sed 5p *.txt",
        "touch f && sort *.txt",
        "mkdir a; sort [a-f]*.txt",
        "sort *.txt & touch f",
        "touch f && timeout 5 sort *.txt",
        "touch f && bash -c 'sort *.txt'",
    ];
    assert_all(&rules, &made, Decision::Ask);
    let known = [
        "sort *.txt",
        "sort *.txt | head",
        "ls *.txt && wc -l *.txt",
        "touch f && sort ./*.txt data*",
    ];
    assert_all(&rules, &known, Decision::Allow);
}

#[test]
fn no_argument_sets_a_variable_of_the_shell() {
    let rules = any_arguments(PROGRAMS);
    let sets = [
        "printf abc%n PATH; ls",
        "printf 'abc%5n' PATH",
        "printf 'abc%-*hhn' 2 PATH",
        "printf '%%%n' PATH",
        // zsh evaluates a number.
        "printf %d PATH=3",
        "test path=3 -eq 3",
    ];
    assert_all(&rules, &sets, Decision::Ask);
    let plain = ["printf '%s\\n' name", "printf '%5.1f%%n\\n' 2", "printf 'a=%s' b"];
    assert_all(&rules, &plain, Decision::Allow);
}

#[test]
fn no_pattern_shows_the_names_of_other_directories() {
    let rules = any_arguments(PROGRAMS);
    let elsewhere = [
        "echo ../*",
        "echo /root/.ssh/*",
        "echo up/*",
        "echo */../../*",
        "for x in a; do echo /*; done",
    ];
    assert_all(&rules, &elsewhere, Decision::Ask);
    assert_all(&rules, &["echo src/*", "echo f*", "echo what?"], Decision::Allow);
}

#[test]
fn nothing_is_piped_into_the_code_of_the_project() {
    let rules = any_arguments(PROGRAMS);
    let piped = [
        "echo 'import os' | python -m pytest",
        "echo x | npm start",
        "echo x | make",
        "cat f | cargo run",
        "echo x | (sort; npm test)",
    ];
    assert_all(&rules, &piped, Decision::Ask);
    assert_all(&rules, &["npm test | tail -5", "make test 2>&1 | grep x"], Decision::Allow);
}

#[test]
fn the_tests_of_python_are_modules_of_the_project() {
    let place = Project::new();
    let work = place.folder.path().join("work");
    std::fs::create_dir_all(work.join("tests")).unwrap();
    std::fs::create_dir_all(work.join("code")).unwrap();
    std::fs::write(work.join("tests/test_a.py"), "").unwrap();
    std::fs::write(work.join("test_b.py"), "").unwrap();
    let rules = any_arguments(PROGRAMS);
    for command in [
        "python -m unittest",
        "python -m unittest -v tests.test_a",
        "python -m unittest tests.test_a.TestA.test_one test_b",
        "python -m unittest discover tests",
    ] {
        assert_eq!(place.bash(&rules, command).decision, Decision::Allow, "{command}");
    }
    for command in [
        "echo 'import os' | python -m unittest code.interact",
        "python -m unittest code.interact",
        "python -m unittest http.server.test",
        "python -m unittest test_b antigravity",
        "python -m unittest discover ..",
        "python -m unittest discover http.server",
        "python -m unittest .test_b",
        "python -m unittest -",
    ] {
        assert_eq!(place.bash(&rules, command).decision, Decision::Ask, "{command}");
    }
}

#[test]
fn no_remote_is_a_directory_above() {
    let place = Project::new();
    let (top, work) = (place.folder.path(), place.folder.path().join("work"));
    std::fs::create_dir_all(top.join("vendored/hooks")).unwrap();
    std::fs::create_dir_all(work.join("hub.git/hooks")).unwrap();
    let rules = any_arguments(PROGRAMS);
    // Where its name is that of a directory, git takes the remote for a repository with hooks.
    for command in ["git push hub main", "git push vendored main", "git fetch vendored"] {
        assert_eq!(place.bash(&rules, command).decision, Decision::Ask, "{command}");
    }
    assert_eq!(place.bash(&rules, "git push origin main").decision, Decision::Allow);
}

#[test]
fn no_word_after_the_first_operand_is_a_file_elsewhere() {
    let place = Project::new();
    let work = place.folder.path().join("work");
    symlink(place.folder.path().join("secret"), work.join("-Fx")).unwrap();
    let rules = any_arguments(PROGRAMS);
    for command in ["awk '{print}' -Fx", "awk '{print}' f -Fx"] {
        assert_eq!(place.bash(&rules, command).decision, Decision::Ask, "{command}");
    }
    for command in ["awk -Fx '{print}' f", "awk '{print}' f -F:", "sort f -k2"] {
        assert_eq!(place.bash(&rules, command).decision, Decision::Allow, "{command}");
    }
}

#[test]
fn a_command_that_the_project_can_replace_is_not_said_to_show_only() {
    let place = Project::new();
    for command in ["rustc --version", "cargo --version", "rustup show", "python3 -m pip list"] {
        place.call("Bash", &json!({ "command": command }), |call| {
            let label = "runs code of this project";
            let found = suggest(call).into_iter().any(|it| it.label.contains(label));
            assert!(found, "{command}: {:?}", suggest(call));
        });
    }
}

#[test]
fn no_path_is_followed_before_the_line_changes_where_it_leads() {
    let any = ["git", "mv", "cat", "head", "tail", "tee", "ls", "pytest", "timeout", "bash"];
    let any = any_arguments(&any);
    let link = common::rule(Decision::Allow, "Bash(ln -s ../secret new)");
    let rules = RuleSet::new(any.rules().iter().cloned().chain([link]));
    let changed = [
        "ln -s ../secret new && cat new",
        "git checkout evil && cat f",
        "git stash pop; head -n 5 src/a.rs",
        "git restore -s evil f && (cat f)",
        "git pull | tee f",
        "mv src/a.rs b & cat b",
        "timeout 5 mv src/a.rs b; cat b",
        "bash -c 'true; mv src/a.rs b' && cat b",
        "git mv src/a.rs b && cat b",
        "mv f g && mv g src/h",
    ];
    assert_all(&rules, &changed, Decision::Ask);
    let unchanged = [
        "cat f",
        "git checkout main && git diff -- src",
        "git pull && ls -la",
        "git add f && cat f",
        "git stash && git log -- f && git stash pop",
        "git checkout main && pytest tests",
        "git checkout main 2>&1 | tail -5 || cat",
    ];
    assert_all(&rules, &unchanged, Decision::Allow);
}

#[test]
fn a_git_format_checks_no_signature() {
    let rules = any_arguments(&["git"]);
    let checks = [
        "git log --format=%G?",
        "git log --format=%+G?",
        "git log --format='%h %-GS'",
        "git log --pretty='% GK'",
        "git log --format='%(signature)'",
        "git for-each-ref --format='%(signature:grade)'",
        "git for-each-ref --format='%(*signature:grade)'",
        "git for-each-ref --sort=signature",
        "git branch --sort -signature:grade",
        "git branch --sort=-signature:grade",
        "git tag --sort='*signature'",
        "git shortlog --group=format:%GS",
    ];
    assert_all(&rules, &checks, Decision::Ask);
    let plain = [
        "git log --format='%h %s'",
        "git for-each-ref --format='%(refname) GOOD'",
        "git branch --sort=-committerdate",
    ];
    assert_all(&rules, &plain, Decision::Allow);
}

#[test]
fn an_edit_is_accepted_inside_and_where_nothing_takes_orders_from_it() {
    let place = Project::new();
    let accepted = |work: &Path, path: &str| {
        let input = json!({"file_path": work.join(path), "content": "x"});
        let call = Call {
            tool: &notation::read("Write", &input),
            working_dir: work,
            home: None,
            session: session(2),
            ancestors: &[],
            now: 0,
            paths: &RealPaths,
        };
        is_edit_inside(&call, [work])
    };
    let work = place.folder.path().join("work");
    for path in [
        "a",
        "src/a.rs",
        "new/deep/file",
        "src/../a",
        ".gitignore",
        "src/.gitkeep",
        "scripts/clean.sh",
    ] {
        assert!(accepted(&work, path), "{path}");
    }
    for path in [
        "../x",
        "up/x",
        "linked/out",
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/config",
        ".git",
        "sub/.git/hooks/x",
        "x.git/hooks/update",
        "HEAD",
        "sub/HEAD",
        ".claude/settings.json",
        ".mcp.json",
        ".husky/pre-commit",
        ".githooks/pre-commit",
        "lefthook.yml",
        "opencode.json",
        ".devcontainer.json",
        ".vscode/tasks.json",
        ".bashrc",
        ".envrc",
        ".gitmodules",
        ".agents/plugins/x/hook.sh",
        ".kshrc",
        ".zlogout",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        "lefthook-local.yml",
        "lefthook.toml",
        ".lefthook/pre-commit/x",
        ".mise.local.toml",
        ".nvimrc",
        ".github/workflows/x.yml",
        ".gitattributes",
        ".never-heard-of/x",
        "package.json",
        "CLAUDE.md",
        "src/build.rs",
        "node_modules/x/index.js",
        "",
    ] {
        assert!(!accepted(&work, path), "{path}");
    }
    // A directory whose name reads as a pattern is that directory and no other.
    let starred = place.folder.path().join("w*");
    std::fs::create_dir(&starred).unwrap();
    assert!(accepted(&starred, "a"));
    assert!(!accepted(&starred, "../work/a"), "`w*` is not a pattern");
}

#[test]
fn a_suggestion_says_what_it_lets_through() {
    let place = Project::new();
    for (command, pattern, label) in [
        ("git diff --stat", "Bash(git diff:*)", "only show files"),
        ("cat f", "Bash(cat:*)", "only show files"),
        ("npm test", "Bash(npm test:*)", "runs code of this project"),
        ("npm run build", "Bash(npm run build:*)", "runs code of this project"),
        ("cargo test x", "Bash(cargo test:*)", "runs code of this project"),
        ("pytest -x", "Bash(pytest:*)", "runs code of this project"),
        ("git commit -m x", "Bash(git commit:*)", "runs code of this project"),
        ("curl https://example.org", "Bash(curl:*)", "talks to a server"),
    ] {
        place.call("Bash", &json!({ "command": command }), |call| {
            let suggestions = suggest(call);
            let found = suggestions.iter().find(|it| it.pattern.as_str() == pattern);
            assert!(found.is_some_and(|it| it.label.contains(label)), "{command}: {suggestions:?}");
        });
    }
    // A command outside the tables is suggested only word for word.
    for command in [
        "uniq f OUT",
        "tree -o f",
        "git clone -u x y",
        "frobnicate x",
        "git push ./vendor",
        "cat ../secret",
    ] {
        place.call("Bash", &json!({ "command": command }), |call| {
            let patterns: Vec<_> = suggest(call).iter().map(|it| it.pattern.to_string()).collect();
            assert_eq!(patterns, [format!("Bash({command})"), "Bash".into()]);
        });
    }
}
