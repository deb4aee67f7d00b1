//! Rules that name what a command acts on: a target, a host, a repository, a path that is changed.

use plexus_rules::Decision;

use super::common::allows;
use super::{Project, assert_all};

#[test]
fn a_rule_that_names_an_object_allows_no_other() {
    for (rule, commands) in [
        (
            "Bash(make test:*)",
            &["make test deploy", "make test -j4 deploy", "make test -- deploy"][..],
        ),
        ("Bash(just test:*)", &["just test deploy"]),
        ("Bash(gradle test:*)", &["gradle test publish"]),
        ("Bash(ninja test:*)", &["ninja test install"]),
        (
            "Bash(curl https://ok.example/:*)",
            &[
                "curl https://ok.example/ https://other.example/",
                "curl https://ok.example/ -X POST",
                "curl https://ok.example/ -sXPOST",
                "curl https://ok.example/ --request=DELETE",
                "curl https://ok.example/ -H 'X-Secret: y'",
                "curl https://ok.example/ --header 'X-Secret: y'",
                "curl https://ok.example/ -A secret",
                "curl https://ok.example/ -e secret",
                "curl https://ok.example/ -sL",
                "curl https://ok.example/ --location",
                "echo x | curl https://ok.example/ https://other.example/",
            ],
        ),
        (
            "Bash(curl -s https://ok.example/:*)",
            &["curl -s https://ok.example/ https://b.example/"],
        ),
        (
            "Bash(gh pr view 12:*)",
            &[
                "gh pr view 12 -R other/repo",
                "gh pr view 12 -Rother/repo",
                "gh pr view 12 --repo o/r",
            ],
        ),
        ("Bash(gh run view 12:*)", &["gh run view 12 --job 34"]),
        ("Bash(gh pr list -R a/b:*)", &["gh pr list -R a/b -R other/repo"]),
        ("Bash(docker logs web:*)", &["docker logs web db"]),
        ("Bash(docker compose logs web:*)", &["docker compose logs web db"]),
        (
            "Bash(kubectl get pod/web:*)",
            &[
                "kubectl get pod/web secret/key",
                "kubectl get pod/web -n other",
                "kubectl get pod/web --context=production",
                "kubectl get pod/web -A",
            ],
        ),
        ("Bash(kubectl get pods web:*)", &["kubectl get pods web db"]),
        ("Bash(kubectl logs web:*)", &["kubectl logs web -c other", "kubectl logs web -n other"]),
        ("Bash(kubectl logs -n a web:*)", &["kubectl logs -n a web -n b"]),
        ("Bash(cargo test -p a:*)", &["cargo test -p a -p b", "cargo test -p a --workspace"]),
        ("Bash(cargo run --bin a:*)", &["cargo run --bin a --bin b", "cargo run --bin a -p b"]),
        ("Bash(pytest tests/a.py:*)", &["pytest tests/a.py tests/b.py"]),
        (
            "Bash(git push origin main:*)",
            &["git push origin main dev", "git push origin main --tags"],
        ),
        ("Bash(git fetch origin:*)", &["git fetch origin --all"]),
        ("Bash(git checkout main:*)", &["git checkout main f", "git checkout main -- f"]),
        ("Bash(git restore f:*)", &["git restore f src", "git restore f -- src"]),
        ("Bash(rm -rf build:*)", &["rm -rf build src", "rm -rf build f"]),
        ("Bash(chmod 755 f:*)", &["chmod 755 f data.txt"]),
        ("Bash(npm run build:*)", &["npm run build deploy"]),
        ("Bash(mvn test:*)", &["mvn test deploy"]),
        ("Bash(rake test:*)", &["rake test deploy"]),
        ("Bash(cargo xtask check:*)", &["cargo xtask check deploy"]),
        ("Bash(ssh web:*)", &["ssh web uptime", "ssh web -l root"]),
        ("Bash(wget https://ok.example/:*)", &["wget https://ok.example/ https://other.example/"]),
        ("Bash(docker exec web:*)", &["docker exec web sh"]),
        ("Bash(systemctl status nginx:*)", &["systemctl status nginx sshd"]),
    ] {
        assert_all(&allows(&[rule.to_owned()]), commands, Decision::Ask);
    }
}

#[test]
fn a_rule_that_names_an_object_allows_its_options() {
    let place = Project::new();
    for (rule, command) in [
        ("Bash(make test:*)", "make test -j4 -k"),
        ("Bash(make:*)", "make test deploy"),
        ("Bash(gradle test:*)", "gradle test --tests A --info"),
        ("Bash(curl https://ok.example/:*)", "curl https://ok.example/ -sS --max-time 5"),
        ("Bash(curl -sSL -X POST:*)", "curl -sSL -X POST https://ok.example/"),
        ("Bash(curl:*)", "curl -sSL -H 'Accept: text/html' https://a.example/ https://b.example/"),
        ("Bash(gh pr view 12:*)", "gh pr view 12 --json title"),
        ("Bash(gh pr view -R a/b:*)", "gh pr view -R a/b 12"),
        ("Bash(gh pr list:*)", "gh pr list -R a/b"),
        ("Bash(docker logs web:*)", "docker logs web --tail 5"),
        ("Bash(kubectl get pods:*)", "kubectl get pods web -o wide"),
        ("Bash(kubectl get:*)", "kubectl get pods -n default"),
        ("Bash(cargo test -p a:*)", "cargo test -p a some_test -- --nocapture"),
        ("Bash(cargo test --workspace:*)", "cargo test --workspace --lib"),
        ("Bash(cargo test some_test:*)", "cargo test some_test -p a"),
        ("Bash(git push origin:*)", "git push origin main"),
        ("Bash(git add:*)", "git add f src"),
        // A command that only shows files may show more of the directory.
        ("Bash(cat f:*)", "cat f data.txt"),
        ("Bash(git diff HEAD:*)", "git diff HEAD -- src"),
        ("Bash(grep -rn x:*)", "grep -rn x src f"),
        ("Bash(echo done:*)", "echo done with it"),
    ] {
        let ruling = place.bash(&allows(&[rule.to_owned()]), command);
        assert_eq!(ruling.decision, Decision::Allow, "{rule}: {command}: {:?}", ruling.why);
    }
}
