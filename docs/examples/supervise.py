#!/usr/bin/env python3
"""Supervises one session over JSON-RPC with nothing but the standard library.

    python3 docs/examples/supervise.py DIRECTORY PROMPT

Allows a Write below DIRECTORY, denies everything else, prints what happens, and ends with the chat: 0 when it completed.
A server must run (`plexus serve`). PLEXUS_DATA_DIR says where its data directory is, if it is not the default.
"""
import json
import os
import pathlib
import sys
import urllib.request


def data_dir():
    if os.environ.get("PLEXUS_DATA_DIR"):
        return pathlib.Path(os.environ["PLEXUS_DATA_DIR"])
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state) / "plexus"


class Plexus:
    def __init__(self, directory):
        self.url = json.loads((directory / "server.json").read_text())["url"]
        self.token = (directory / "operator.token").read_text().strip()

    def call(self, method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/rpc", body, headers)
        with urllib.request.urlopen(request, timeout=90) as answer:
            answer = json.load(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: could not {answer['error']['message']}")
        return answer["result"]


def decide(plexus, directory, approval):
    # Looked up on the disk: `..` and links lead where they lead.
    path = (directory / approval["input"].get("file_path", "/")).resolve()
    inside = approval["tool_name"] == "Write" and path.is_relative_to(directory)
    plexus.call(
        "loopback.respond",
        approval_id=approval["id"],
        approve=inside,
        # The decision is for the input that we have just looked at, and for no other.
        input_digest=approval["input_digest"],
        **({} if inside else {"message": "this program allows nothing but writing files here"}),
    )


def main(directory, prompt):
    directory = pathlib.Path(directory).resolve()
    plexus = Plexus(data_dir())
    session = plexus.call("claudecode.create", name=f"python-{os.getpid()}", working_dir=str(directory))["id"]
    plexus.call("claudecode.chat_async", session_id=session, prompt=prompt)
    cursor = None
    while True:
        # Handing the cursor back means that a reply which got lost is read again, and nothing is read twice.
        page = plexus.call("claudecode.poll", session_id=session, wait_ms=30_000, **({"cursor": cursor} if cursor else {"consumer": "example"}))
        cursor = page["cursor"] or cursor
        for item in page["events"]:
            event = item["event"]
            print(item["seq"], event["type"], event.get("text") or event.get("message") or event.get("tool_name") or "", flush=True)
            if event["type"] == "complete":
                return 0
        for approval in page["pending_approvals"]:
            decide(plexus, directory, approval)
        if page["status"] in ("failed", "cancelled") and not page["has_more"]:
            return 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: supervise.py DIRECTORY PROMPT")
    sys.exit(main(sys.argv[1], sys.argv[2]))
