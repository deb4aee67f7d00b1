"""One request over HTTP/1.1, with nothing but asyncio.

Each request has a connection of its own. A request on a kept connection whose server has just died
is lost without anybody knowing whether it was done; a new connection is refused instead.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from .errors import ServerLost

# What an answer may weigh: a page of events is bounded by the server, far below this.
MAX_ANSWER_BYTES = 256 * 1024 * 1024


async def post(url: str, token: str, body: bytes, timeout: float) -> tuple[int, bytes]:
    """Posts a JSON body and returns the status and the body of the answer."""
    try:
        async with asyncio.timeout(timeout):
            return await _post(url, token, body)
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        raise ServerLost(f"could not reach {url}: {error or type(error).__name__}") from error


async def _post(url: str, token: str, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host, port = parts.hostname or "127.0.0.1", parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        head = (
            f"POST {parts.path or '/'} HTTP/1.1\r\n"
            f"Host: {parts.netloc}\r\n"
            f"Authorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        return await _answer(reader)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ", 2)[1])
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "chunked" in headers.get("transfer-encoding", ""):
        return status, await _chunks(reader)
    length = headers.get("content-length")
    if length is None:
        return status, await reader.read(MAX_ANSWER_BYTES)
    if int(length) > MAX_ANSWER_BYTES:
        raise ValueError(f"the answer has {length} bytes")
    return status, await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > MAX_ANSWER_BYTES:
            raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        body += await reader.readexactly(size)
        await reader.readline()
    return bytes(body)
