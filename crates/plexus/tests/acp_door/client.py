"""An editor made of the Python SDK, driven by a test: commands come as JSON lines on stdin, what happens goes as
JSON lines to stdout. The arguments are the agent."""

import asyncio
import json
import sys

import acp
from acp.schema import AllowedOutcome, Implementation, RequestPermissionResponse


def say(message):
    print(json.dumps(message), flush=True)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Editor(acp.Client):
    def __init__(self):
        self.answers = []
        self.asked = []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        question = len(self.answers) - 1
        say({"question": question, "sessionId": session_id, "toolCall": plain(tool_call), "options": [plain(o) for o in options]})
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=await answer))

    async def session_update(self, session_id, update, **kwargs):
        say({"update": plain(update)})

    def observe(self, event):
        """The SDK has no handler for a withdrawn request; a program that wants to know sees the line."""
        if event.direction.value != "incoming":
            return
        message = event.message
        if message.get("method") == "session/request_permission":
            self.asked.append(message["id"])
        elif message.get("method") == "$/cancel_request":
            say({"withdrawn": self.asked.index(message["params"]["requestId"])})


async def obey(editor, connection, command, number=None, **given):
    if command == "initialize":
        info = Implementation(name="python-sdk", version="0")
        return await connection.initialize(protocol_version=given["version"], client_info=info)
    if command == "new":
        return await connection.new_session(cwd=given["cwd"], mcp_servers=[])
    if command == "load":
        return await connection.load_session(session_id=given["id"], cwd=given["cwd"], mcp_servers=[])
    if command == "prompt":
        return await connection.prompt(session_id=given["id"], prompt=[acp.text_block(given["text"])])
    if command == "cancel":
        return await connection.cancel(session_id=given["id"])
    return editor.answers[given["question"]].set_result(given["option"])


async def run(editor, connection, line):
    order = json.loads(line)
    try:
        result = await obey(editor, connection, **order)
        say({"number": order["number"], "result": plain(result) if result is not None else None})
    except acp.RequestError as error:
        say({"number": order["number"], "error": {"code": error.code, "message": str(error)}})


async def main():
    editor = Editor()
    program, *words = sys.argv[1:]
    limit = {"limit": 64 * 1024 * 1024}
    async with acp.spawn_agent_process(
        editor, program, *words, transport_kwargs={**limit, "stderr": None}, observers=[editor.observe]
    ) as (connection, _process):
        lines = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        running = set()
        while line := await lines.readline():
            task = asyncio.create_task(run(editor, connection, line))
            running.add(task)
            task.add_done_callback(running.discard)


asyncio.run(main())
