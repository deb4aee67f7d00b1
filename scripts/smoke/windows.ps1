# A short smoke test for Windows: builds what runs there, and reads a recorded log.
# Needs Rust with the MSVC tools, nothing else. The server and the shim are for Unix; `claude_code`, `codex_app`, `acp_lines` and `agent_api` run here.
$ErrorActionPreference = 'Stop'
Set-Location (Join-Path $PSScriptRoot '..\..')

function Invoke-Step([string] $Name, [scriptblock] $Body) {
    Write-Host "`n== $Name"
    & $Body
    if ($LASTEXITCODE -ne 0) { throw "$Name failed with exit code $LASTEXITCODE" }
}

Invoke-Step 'build' { cargo build --quiet --package agent_lines --package claude_code --package codex_app --package acp_lines --package agent_api --all-features --examples }
Invoke-Step 'tests of what runs here' { cargo test --quiet --package agent_lines --package claude_code --package codex_app --package acp_lines --package agent_api --all-features --lib }
Invoke-Step 'a recorded log of the real CLI' {
    $log = Get-ChildItem fixtures -Recurse -Filter control_partial.jsonl | Select-Object -First 1
    cargo run --quiet --package claude_code --example stream_stats -- $log.FullName
}
Write-Host "`n== all good"
