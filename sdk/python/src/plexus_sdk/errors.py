"""What can go wrong: the server refuses a call, or is not there."""

from __future__ import annotations

from typing import Any


class PlexusError(Exception):
    """The server refused a call. `kind` says what to do next, `hint` says it in words."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        data = error.get("data") or {}
        self.method = method
        self.code: int = error.get("code", 0)
        self.message: str = data.get("message") or error.get("message", "")
        self.kind: str = data.get("kind", "not_found" if self.code == -32601 else "invalid")
        self.hint: str = data.get("hint") or ""
        self.field: str | None = data.get("field")
        self.standing: Any = data.get("standing")
        self.retry_after_ms: int | None = data.get("retry_after_ms")
        hint = f" (hint: {self.hint})" if self.hint else ""
        super().__init__(f"{method}: could not {self.message}{hint}")


class ServerLost(ConnectionError):
    """The server could not be reached, or the connection broke before the answer came.

    Whether the call was done is not known. Calls that may be made twice are repeated before this
    is raised.
    """
