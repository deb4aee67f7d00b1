# Recipes call scripts and cargo; nothing is done here that cannot be done without just.

# What to run before sending: the quick parts of `.ci/run`.
check:
    bash .ci/run quick

# Everything that CI runs.
ci:
    bash .ci/run

# Formats everything.
fmt:
    cargo fmt --all

# Runs the server with the simulator as its agent, on a free port, with data that is thrown away.
try:
    cargo run -p plexus -- serve --listen 127.0.0.1:0 --claude-bin sim --data-dir "$(mktemp -d)/plexus"

# The dashboard's own tests, types and build.
web:
    cd web && npm install --no-save && npm run check && npm run check-dist && npm test

# The suites that hold us against the real Claude Code CLI.
real-claude:
    bash scripts/install-claude-cli.sh
    PLEXUS_REQUIRE_REAL_CLAUDE=1 cargo test -p claude_code --test real_claude
    PLEXUS_REQUIRE_REAL_CLAUDE=1 cargo test -p agent_api --all-features --test real_claude

# The suites that hold us against the real Codex CLI.
real-codex:
    bash scripts/install-codex-cli.sh
    PLEXUS_REQUIRE_REAL_CODEX=1 cargo test -p codex_app --test real_codex
    PLEXUS_REQUIRE_REAL_CODEX=1 cargo test -p agent_api --all-features --test real_codex
    PLEXUS_REQUIRE_REAL_CODEX=1 cargo test -p plexus-activations --test codex_real
    PLEXUS_REQUIRE_REAL_CODEX=1 cargo test -p plexus --test real_codex

# The suites that hold us against real agents of the Agent Client Protocol.
real-acp:
    bash scripts/install-acp-agents.sh
    PLEXUS_REQUIRE_ACP=1 cargo test -p acp_lines --test real_acp
    PLEXUS_REQUIRE_ACP=1 cargo test -p agent_api --all-features --test real_acp

# The door for editors with real clients of the Agent Client Protocol.
acp-door:
    bash scripts/install-acp-clients.sh
    PLEXUS_REQUIRE_ACP=1 cargo test -p plexus --all-features --test acp_door

# What takes minutes with the real CLI, and races in full; no part of CI.
slow:
    bash scripts/slow-suite.sh
