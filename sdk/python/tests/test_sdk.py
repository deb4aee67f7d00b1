"""The SDK against a real server, which is killed and started again where it hurts."""

from __future__ import annotations

import asyncio
import json
import unittest

from plexus_sdk import Allow, Deny, Plexus, PlexusError, ServerLost, wire
from server import PATIENCE_SECS, Server


class Sdk(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = Server()
        await self.server.start()
        self.plexus = self.server.plexus

    async def asyncTearDown(self) -> None:
        await self.server.stop()

    async def test_events_go_on_where_they_were_when_the_server_is_killed(self) -> None:
        session = await self.plexus.create("stream", self.server.work)
        chat = await session.chat(
            'sim:\nburst 40 20\ntool Bash {"command":"touch half"}\nburst 40 20'
        )
        seen: list[int] = []
        kinds: list[str] = []
        killed = False

        async def allow(asked: wire.Approval) -> Allow:
            # In the middle of the stream: the first half is read, the second not written.
            nonlocal killed
            self.server.kill()
            killed = True
            await self.server.start()
            return Allow()

        async with asyncio.timeout(PATIENCE_SECS):
            async for event in chat.events(on_permission=allow):
                seen.append(event["seq"])
                kinds.append(event["event"]["type"])
        self.assertTrue(killed)
        self.assertEqual(seen, list(range(len(seen))))
        self.assertEqual(kinds[-1], "complete")
        self.assertEqual(kinds.count("content"), 80)

        # All of the session, with a restart between two reads of one iterator.
        again: list[int] = []
        async with asyncio.timeout(PATIENCE_SECS):
            async for event in session.events():
                again.append(event["seq"])
                if event["seq"] == 10:
                    self.server.kill()
                    await self.server.start()
                if len(again) == len(seen):
                    cursor = event["node_id"]
                    break
        self.assertEqual(again, seen)

        # A later chat is read behind the cursor.
        later = await session.chat("sim:\nsay more")
        async with asyncio.timeout(PATIENCE_SECS):
            async for event in session.events(cursor):
                self.assertEqual(event["chat"], later.number)
                if event["event"]["type"] == "complete":
                    break

    async def test_a_denial_is_read_and_what_nobody_handles_waits(self) -> None:
        session = await self.plexus.create("denied", self.server.work)
        ask = 'sim:\ntool Bash {"command":"touch made"}\nsay done'
        chat = await session.chat(ask)
        said = await chat.result(on_permission=lambda asked: Deny("not today"))
        self.assertEqual(said, "done")
        self.assertFalse((self.server.work / "made").exists())

        await session.chat(ask)
        async with asyncio.timeout(PATIENCE_SECS):
            async for asked in self.plexus.approvals():
                self.assertEqual(asked["tool_name"], "Bash")
                self.assertTrue(await self.plexus.decide(asked, Allow()))
                # Decided otherwise already: the second decision does not stand.
                self.assertFalse(await self.plexus.decide(asked, Deny("too late")))
                break

    async def test_a_question_is_answered_by_its_own_callback(self) -> None:
        session = await self.plexus.create("question", self.server.work)
        options = [{"label": label, "description": label} for label in ("SQLite", "PostgreSQL")]
        question = {"question": "Which database?", "header": "DB", "options": options}
        asked = json.dumps({"questions": [{**question, "multiSelect": False}]})
        chat = await session.chat(f"sim:\ntool AskUserQuestion {asked}\nsay done")

        def answer(asked: wire.Approval) -> dict[str, list[str]]:
            question = asked.get("question")
            assert question is not None and question["kind"] == "choices"
            return {part["id"]: ["PostgreSQL"] for part in question["questions"]}

        def never(asked: wire.Approval) -> Deny:
            raise AssertionError("a question is no permission")

        async with asyncio.timeout(PATIENCE_SECS):
            self.assertEqual(await chat.result(on_permission=never, on_question=answer), "done")
        history = await self.plexus.call("loopback.history", session_id=session.id)
        self.assertEqual(history["decisions"][0]["answers"], {"Which database?": ["PostgreSQL"]})

    async def test_a_second_prompt_while_a_chat_runs_is_refused(self) -> None:
        session = await self.plexus.create("busy", self.server.work)
        await session.chat('sim:\ntool Bash {"command":"touch busy"}\nsay done')
        async with asyncio.timeout(PATIENCE_SECS):
            with self.assertRaises(PlexusError) as refused:
                await session.chat("sim:\nsay more")
        self.assertEqual(refused.exception.kind, "busy")
        self.assertNotEqual(refused.exception.hint, "")

    async def test_another_service_at_the_address_is_said(self) -> None:
        url, token = self.plexus._where()
        slash = Plexus(f"{url}/", token, patience=0)
        self.assertIn("version", await slash.call("plexus.version"))
        for body in (b"{}", b"[]", b"null", b'{"error":"not found"}', b"<html>"):

            async def answer(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = body
            ) -> None:
                await reader.readuntil(b"\r\n\r\n")
                length = str(len(body)).encode()
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: " + length)
                writer.write(b"\r\n\r\n" + body)
                await writer.drain()
                writer.close()

            other = await asyncio.start_server(answer, "127.0.0.1", 0)
            at = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
            with self.assertRaises(ServerLost) as lost:
                await Plexus(at, token, patience=0).call("plexus.version")
            for part in (at, "404"):
                self.assertIn(part, str(lost.exception))
            other.close()

    async def test_errors_say_what_to_do(self) -> None:
        await self.plexus.create("taken", self.server.work)
        with self.assertRaises(PlexusError) as taken:
            await self.plexus.create("taken", self.server.work)
        self.assertEqual(taken.exception.kind, "conflict")
        self.assertIn("choose another name", taken.exception.hint)
        with self.assertRaises(PlexusError) as unknown:
            await self.plexus.session("01a1de6b-3b15-70ca-afc7-c3f165592f7c").get()
        self.assertEqual(unknown.exception.kind, "not_found")
        with self.assertRaises(ServerLost):
            await Plexus(data_dir=self.server.root / "nowhere", patience=0).call("plexus.version")
        with self.assertRaises(ServerLost):
            await Plexus("http://127.0.0.1:1", "token", patience=0).call("plexus.version")


if __name__ == "__main__":
    unittest.main()
