"""Allows a file to be written in DIRECTORY, denies everything else: supervise.py DIRECTORY PROMPT."""
import asyncio, sys
from plexus_sdk import Allow, Deny, Plexus

async def main(directory: str, prompt: str) -> None:
    async with Plexus() as plexus:
        session = await plexus.create(f"sdk-{directory}", working_dir=directory)
        chat = await session.chat(prompt)
        said = await chat.result(on_permission=lambda asked: Allow() if asked["tool_name"] == "Write" else Deny("only write files"))
        print(said)

asyncio.run(main(*sys.argv[1:]))
