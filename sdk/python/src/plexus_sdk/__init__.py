"""Supervises coding agents through a Plexus server.

    async with Plexus() as plexus:
        session = await plexus.create("review", working_dir="/home/me/project")
        chat = await session.chat("Review the last commit")
        async for event in chat.events(on_permission=lambda asked: Deny("only read, please")):
            print(event["event"])

`wire` has the type of everything that crosses the wire; `Plexus.call` calls any method.
"""

from . import wire
from .client import Allow, Chat, Deny, OnPermission, OnQuestion, Plexus, Session
from .errors import PlexusError, ServerLost

__all__ = [
    "Allow",
    "Chat",
    "Deny",
    "OnPermission",
    "OnQuestion",
    "Plexus",
    "PlexusError",
    "ServerLost",
    "Session",
    "wire",
]
