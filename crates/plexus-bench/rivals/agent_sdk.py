"""claude-agent-sdk of Python with the simulated child: events a second, milliseconds for each permission through its callback, and when
each of some texts came.

Arguments: the simulator, a directory to work in, events, bytes of each, permission requests, texts. Prints one JSON object.
"""

import asyncio
import json
import sys
import time

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    TextBlock,
)

seen = {}


async def allow(_tool, tool_input, _context):
    return PermissionResultAllow(updated_input=tool_input)


async def play(client, prompt):
    """Plays one prompt in the warm child; returns how long it took and how many messages of the model came."""
    started = time.perf_counter()
    await client.query(prompt)
    said = 0
    async for message in client.receive_response():
        if isinstance(message, AssistantMessage):
            said += 1
            for block in message.content:
                if isinstance(block, TextBlock) and block.text.startswith("mark-"):
                    seen[block.text] = time.time() * 1e3
        if isinstance(message, ResultMessage):
            return time.perf_counter() - started, said
    raise RuntimeError("the child ended without a result")


async def main(simulator, folder, events, size, asks, marks):
    options = ClaudeAgentOptions(cli_path=simulator, cwd=folder, can_use_tool=allow)
    async with ClaudeSDKClient(options) as client:
        await play(client, "sim:\nsay ready")
        took, said = await play(client, f"sim:\nburst {events} {size}")
        assert said == events, f"{said} messages of {events}"
        ask = 'tool Write {"file_path":"sdk.txt","content":"x"}\n'
        asked, _ = await play(client, "sim:\n" + ask * asks)
        await play(client, "sim:\nsleep 200\n" + "".join(f"sleep 12\nsay mark-{mark}\n" for mark in range(marks)))
    print(json.dumps({"events_per_s": said / took, "ask_ms": asked / asks * 1e3, "seen": seen}))


asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])))
