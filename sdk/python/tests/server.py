"""A real server whose agent is the simulator, which a test may kill and start again."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import tempfile

from plexus_sdk import Plexus

# How long anything may take that a test waits for.
PATIENCE_SECS = 120.0


class Server:
    """`plexus serve` on a folder of its own. PLEXUS_BIN names the program."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="plexus-sdk-")
        self.root = pathlib.Path(self.folder.name)
        self.data = self.root / "data"
        self.work = self.root / "work"
        self.work.mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.plexus = Plexus(data_dir=self.data)

    async def start(self) -> None:
        """Starts it, and returns once it accepts calls."""
        (self.data / "server.json").unlink(missing_ok=True)
        environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(self.root / "claude")}
        self.process = subprocess.Popen(
            [os.environ["PLEXUS_BIN"], "serve", "--data-dir", str(self.data)]
            + ["--listen", "127.0.0.1:0", "--claude-bin", "sim", "--log", "warn"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        async with asyncio.timeout(PATIENCE_SECS):
            while not (self.data / "server.json").exists():
                assert self.process.poll() is None, "the server ended"
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """Kills it, as an accident would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    async def stop(self) -> None:
        """Ends it with its children, and removes the folder."""
        await self.plexus.call("server.stop", children=True)
        assert self.process is not None
        await asyncio.to_thread(self.process.wait)
        self.folder.cleanup()
