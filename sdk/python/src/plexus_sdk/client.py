"""The client: a server, its sessions, their chats, and the iterators over what happens."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pathlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from . import wire
from .errors import PlexusError, ServerLost
from .http import post

# How long one read waits at the server for something new. The server takes at most 60 s.
WAIT_MS = 30_000
# How much longer than that an answer may take before its connection counts as lost.
GRACE_SECS = 60.0
# The first and the longest rest before a lost call is made again.
FIRST_REST_SECS = 0.05
LONGEST_REST_SECS = 2.0
# How long in all a call rests because the server is busy: a chat that runs may need hours, and its
# caller has to know.
BUSY_SECS = 5.0
# Statuses of a chat that has ended.
ENDED = ("complete", "failed", "cancelled")


@dataclass(frozen=True)
class Allow:
    """Lets a call run, perhaps with another input than the agent gave."""

    updated_input: dict[str, Any] | None = None


@dataclass(frozen=True)
class Deny:
    """Refuses; the agent reads why."""

    message: str = ""


Decision: TypeAlias = Allow | Deny | None
Answers: TypeAlias = dict[str, list[str]]
# Called with a permission request. `None` leaves it to somebody else.
OnPermission: TypeAlias = Callable[[wire.Approval], Decision | Awaitable[Decision]]
# Called with a question of the agent (`question` of the request has it). Answers are by the
# questions' ids; a plan is answered with `Allow` or `Deny`.
OnQuestion: TypeAlias = Callable[
    [wire.Approval], Answers | Decision | Awaitable[Answers | Decision]
]


class Plexus:
    """A server. Without arguments it is the one of the default data directory.

    A server that goes away is waited for: `patience` says for how many seconds, `None` for ever.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        patience: float | None = None,
    ) -> None:
        if (url is None) != (token is None):
            raise ValueError("give url and token, or neither")
        self._fixed = None if url is None or token is None else (url, token)
        self._data_dir = pathlib.Path(data_dir) if data_dir is not None else default_data_dir()
        self._patience = patience

    async def __aenter__(self) -> Plexus:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held between calls, so there is nothing to close."""

    async def call(self, method: str, *, again: bool = False, **params: Any) -> Any:
        """Calls any method.

        With `again` it is repeated while the server is lost, and for a few seconds while it is
        busy.
        """
        loop = asyncio.get_running_loop()
        until = None if self._patience is None else loop.time() + self._patience
        rest, busy = FIRST_REST_SECS, 0.0
        while True:
            try:
                return await self._once(method, params)
            except (PlexusError, ServerLost) as error:
                pause = rest
                if isinstance(error, PlexusError):
                    pause = max(rest, (error.retry_after_ms or 0) / 1000)
                    if error.kind == "busy":
                        busy += pause
                        again = again and bool(error.retry_after_ms) and busy <= BUSY_SECS
                    else:
                        again = again and error.kind == "unavailable"
                if not again or (until is not None and loop.time() + pause > until):
                    raise
            await asyncio.sleep(pause)
            rest = min(rest * 2, LONGEST_REST_SECS)

    async def _once(self, method: str, params: dict[str, Any]) -> Any:
        url, token = self._where()
        url = url.rstrip("/")
        given = {name: value for name, value in params.items() if value is not None}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        timeout = given.get("wait_ms", 0) / 1000 + GRACE_SECS
        status, text = await post(f"{url}/rpc", token, json.dumps(body).encode(), timeout)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise ServerLost(f"{url} answered {status} without JSON") from error
        if isinstance(answer, dict):
            if isinstance(answer.get("error"), dict):
                raise PlexusError(method, answer["error"])
            if answer.get("result") is not None:
                return answer["result"]
        raise ServerLost(f"{url} answered {status}, and not as a Plexus server does")

    def _where(self) -> tuple[str, str]:
        """Where the server is now: one that was started again may listen elsewhere."""
        if self._fixed is not None:
            return self._fixed
        try:
            told = json.loads((self._data_dir / "server.json").read_text())
            token = (self._data_dir / "operator.token").read_text().strip()
        except (OSError, ValueError) as error:
            raise ServerLost(f"no server runs in {self._data_dir}: {error}") from error
        return told["url"], token

    async def create(self, name: str, working_dir: str | os.PathLike[str], **more: Any) -> Session:
        """Creates a session. `more` are other parameters of `agents.create`, such as `agent`."""
        working_dir = str(pathlib.Path(working_dir).absolute())
        made = await self.call("agents.create", name=name, working_dir=working_dir, **more)
        return Session(self, made["id"])

    def session(self, session_id: str) -> Session:
        """A session that exists already."""
        return Session(self, session_id)

    async def approvals(self) -> AsyncIterator[wire.Approval]:
        """Yields every permission request that you may decide, once each, as they come."""
        after, seen = 0, set[str]()
        while True:
            # Waiting for changes, not for requests: one that nobody answers would end each wait.
            told = await self.call(
                "agents.wait", again=True, after=after, wake_on="asks_or_ends", wait_ms=WAIT_MS
            )
            after = told["after"]
            if not told["sessions"]:
                continue
            waiting = [approval async for approval in self._pending()]
            for approval in waiting:
                if approval["id"] not in seen:
                    yield approval
            seen = {approval["id"] for approval in waiting}

    async def _pending(self) -> AsyncIterator[wire.Approval]:
        cursor = None
        while True:
            page = await self.call("loopback.pending", again=True, cursor=cursor)
            for approval in page["approvals"]:
                yield cast(wire.Approval, approval)
            cursor = page.get("cursor")
            if cursor is None:
                return

    async def decide(self, asked: wire.Approval, decision: Answers | Decision) -> bool:
        """Decides a request. False when it was decided otherwise meanwhile, or is left alone."""
        params: dict[str, Any] = {}
        if decision is None:
            return False
        if isinstance(decision, Deny):
            params = {"approve": False, "message": decision.message or None}
        elif isinstance(decision, Allow):
            params = {"approve": True, "updated_input": decision.updated_input}
        else:
            params = {"approve": True, "answers": decision}
        try:
            await self.call(
                "loopback.respond",
                again=True,
                approval_id=asked["id"],
                # The decision is for the input that was looked at, and for no other.
                input_digest=asked["input_digest"],
                **params,
            )
        except PlexusError as error:
            if error.kind not in ("conflict", "expired", "not_found"):
                raise
            return False
        return True


class Session:
    """One supervised conversation."""

    def __init__(self, plexus: Plexus, session_id: str) -> None:
        self.plexus = plexus
        self.id = session_id

    async def chat(self, prompt: str, **more: Any) -> Chat:
        """Gives the session a prompt, and returns at once."""
        # With the key a call whose answer got lost finds the chat that it started.
        key = more.pop("idempotency_key", None) or str(uuid.uuid4())
        started = await self.plexus.call(
            "agents.chat_async",
            again=True,
            session_id=self.id,
            prompt=prompt,
            idempotency_key=key,
            **more,
        )
        return Chat(self, started["chat"])

    async def get(self) -> wire.Session:
        """The session as it is now; `answer` is the last thing the agent said."""
        told = await self.plexus.call("agents.get", again=True, session_id=self.id)
        return cast(wire.Session, told["session"])

    async def cancel(self, reason: str | None = None) -> None:
        """Ends the running chat."""
        await self.plexus.call("agents.cancel", session_id=self.id, reason=reason)

    async def delete(self) -> None:
        """Ends the session and everything below it, and removes their records."""
        await self.plexus.call("agents.delete", session_id=self.id)

    async def events(self, cursor: str | None = None) -> AsyncIterator[wire.PolledEvent]:
        """Yields the events of all chats, past and to come, none twice and none left out.

        The `node_id` of an event is a cursor: with it a later call, in another process too, goes
        on behind that event.
        """
        page = await self._first_page() if cursor is None else None
        while True:
            if page is None:
                page = await self._poll(cursor=cursor)
            for event in page["events"]:
                yield event
            cursor, page = page["cursor"], None

    async def _first_page(self) -> wire.Polled:
        try:
            return await self._poll(chat=0, from_seq=0)
        except PlexusError as error:
            if error.kind != "not_found":
                raise
        # Before the first chat there is nothing to read, and the position is the beginning.
        return await self._poll(from_seq=0)

    async def _poll(self, **position: Any) -> wire.Polled:
        page = await self.plexus.call(
            "agents.poll", again=True, session_id=self.id, wait_ms=WAIT_MS, **position
        )
        return cast(wire.Polled, page)


class Chat:
    """One prompt and all that follows from it."""

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.number = number

    async def events(
        self,
        from_seq: int = 0,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
    ) -> AsyncIterator[wire.PolledEvent]:
        """Yields the events of this chat until it has ended, none twice and none left out.

        Requests go to the callbacks. One without a callback waits for somebody else.
        """
        plexus, handled = self.session.plexus, set[str]()
        while True:
            page = await self.session._poll(chat=self.number, from_seq=from_seq)
            for event in page["events"]:
                from_seq = event["seq"] + 1
                yield event
            for asked in page["pending_approvals"]:
                callback = on_question if asked.get("question") else on_permission
                if callback is None or asked["id"] in handled:
                    continue
                handled.add(asked["id"])
                decision = callback(asked)
                await plexus.decide(
                    asked, await decision if inspect.isawaitable(decision) else decision
                )
            if page["status"] in ENDED and from_seq >= page["total_events"]:
                return

    async def result(
        self,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
    ) -> str:
        """Waits for the end and returns the last thing the agent said."""
        said = ""
        async for item in self.events(on_permission=on_permission, on_question=on_question):
            if item["event"]["type"] == "content":
                said = item["event"]["text"]
        return said


def default_data_dir() -> pathlib.Path:
    """The data directory of a server that was started without naming one."""
    if named := os.environ.get("PLEXUS_DATA_DIR"):
        return pathlib.Path(named)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state) / "plexus"
