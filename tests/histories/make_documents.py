"""Makes the histories of documents: ``python -m tests.histories.make_documents``.

They are written once, as those of ``make.py`` are. Calls reach the servers of the kit, messages a list in memory; time
is virtual, and stands still while something outside is under way.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
from ruamel.yaml import YAML
from tests.histories import programs_documents
from tests.histories.make import ended_runs, write
from tests.serverless.conformance.loop import KitLoop
from tests.serverless.conformance.stub import HOSTS, serving

from outlast.errors import FaultedError, WorkflowCancelledError
from outlast.interceptors import Interceptor, RunActivity
from outlast.testing import TestEnvironment
from outlast_serverless import (
    ChannelTarget,
    Document,
    DocumentRun,
    HttpPolicy,
    InboundMessage,
    OutboundMessage,
    ProcessPolicy,
    Runtime,
    Secrets,
)
from outlast_workflow.options.limits import StructuralLimits

PATH = Path(programs_documents.__file__)
OWN_HOST = "https://golden.example.com"
OUTSIDE = {
    "serverless.http",
    "serverless.openapi",
    "serverless.shell",
    "serverless.script",
    "serverless.fetch",
}
DOUBLE = {"set": {"doubled": "${ .n * 2 }"}}
SERVED = {
    "/schema.json": {"type": "object", "required": ["n"]},
    "/catalog/functions/double/1.0.0/function.yaml": DOUBLE,
    "/double.yaml": DOUBLE,
    "/asyncapi.json": {
        "asyncapi": "3.0.0",
        "servers": {"log": {"host": "127.0.0.1:9", "protocol": "kafka"}},
        "channels": {"news": {"address": "news"}},
        "operations": {
            "tell": {"action": "send", "channel": {"$ref": "#/channels/news"}},
            "hear": {"action": "receive", "channel": {"$ref": "#/channels/news"}},
        },
    },
}


class Patience(Interceptor):
    """Lets no time pass while an activity waits for what is outside."""

    def __init__(self, loop: KitLoop) -> None:
        self._loop = loop

    async def run_activity(
        self, call: RunActivity, next: Callable[[RunActivity], Coroutine[Any, Any, Any]]
    ) -> Any:
        if call.info.activity_type not in OUTSIDE:
            return await next(call)
        async with self._loop.outside():
            return await next(call)


class Log:
    """A protocol of channels: a list, whose offsets are positions."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.subscribed = 0
        self.changed = asyncio.Condition()

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        async with self.changed:
            self.messages.append(message.data)
            self.changed.notify_all()

    @asynccontextmanager
    async def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AsyncGenerator[AsyncIterator[InboundMessage]]:
        self.subscribed += 1
        yield self._from(len(self.messages) if position is None else position)

    async def _from(self, at: int) -> AsyncIterator[InboundMessage]:
        while True:
            async with self.changed:
                while len(self.messages) <= at:
                    await self.changed.wait()
            at += 1
            yield InboundMessage(self.messages[at - 1], "application/json", position=at)


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = orjson.dumps(SERVED[self.path])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def answering() -> Generator[str]:
    """Serve what documents fetch; yields the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def documents() -> dict[str, Document]:
    """Return the documents, by their names."""
    made: dict[str, Document] = {}
    for body in YAML(typ="safe", pure=True).load_all(PATH.with_suffix(".yaml").read_bytes()):
        name = body.pop("name")
        head = {"dsl": "1.0.3", "namespace": "golden", "name": name, "version": "1.0.0"}
        made[name] = Document.parse(orjson.dumps({"document": head, **body}))
    return made


class Recording:
    """Plays the documents.

    Args:
        env: The environment.
        runtime: The runtime.
        log: The channel of messages.
        loop: The loop.
    """

    def __init__(self, env: TestEnvironment, runtime: Runtime, log: Log, loop: KitLoop) -> None:
        self._env = env
        self._runtime = runtime
        self._log = log
        self._loop = loop
        self._documents = documents()
        self._events = 0

    async def start(self, name: str, input: Any = None, number: int = 1) -> DocumentRun:
        return await self._runtime.start(self._documents[name], input, id=f"{name}-{number}")

    async def play(self, name: str, input: Any = None, number: int = 1) -> None:
        """Start a document, and wait for its end."""
        await self.ended(await self.start(name, input, number))

    async def ended(self, run: DocumentRun) -> None:
        with suppress(FaultedError, WorkflowCancelledError):
            await run.result()

    async def publish(self, *events: tuple[str, Any]) -> None:
        """Publish events, by their types and data, and wait for a second."""
        for kind, data in events:
            self._events += 1
            await self._runtime.publish(
                {"id": str(self._events), "source": "/golden", "type": kind, "data": data}
            )
        await asyncio.sleep(1)

    async def all(self) -> None:
        """Play all of them."""
        orders = [{"id": id, "price": price} for id, price in (("a", 7), ("b", 2), ("c", 9), ("d", 8))]
        await self.play("flow", {"orders": orders})
        await self.play("flow", {"no": "orders"}, 2)
        for name in ("retries", "attempts", "deadlines", "late", "blink", "forks"):
            await self.play(name, {"none": 0})
        await self.listens()
        await self.long()
        await self.held()
        await self.play("parts")
        await self.play("fetches", {"n": 1})
        await self.play("misfit", {"n": 1})
        await self._runtime.register(self._documents["child"])
        await self.play("parent", {"n": 1})
        await self.play("processes", {"n": "five"})
        await self.play("calls", {"id": 4})
        await self.channels()
        await self.play("breathless", {"n": 1100})
        await self.schedules()
        await asyncio.sleep(100)

    async def listens(self) -> None:
        run = await self.start("listens", {"id": 7})
        await asyncio.sleep(1)
        await self.publish(("paid", {"order": 8}), ("paid", {"order": 7}))
        await self.publish(("packed", {"box": 1}), ("sent.air", {"box": 2}), ("sent.sea", {"box": 1}))
        await self.publish(("a", 1), ("b", {"n": 1}))
        await self.publish(("a", 2), ("a", 3), ("b", {"n": 2}))
        await self.publish(("x", {"v": 1}), ("y", {"v": 2}))
        await run.publish({"id": "own", "source": "/own", "type": "z", "data": {"v": 3}})
        await asyncio.sleep(5)
        await self.publish(("stop", None))
        await self.ended(run)

    async def long(self) -> None:
        run = await self.start("long", {})
        await asyncio.sleep(8.5)
        await run.suspend()
        await asyncio.sleep(3)
        await run.resume()
        while not any(task.kind == "listen" for task in (await run.describe()).open):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        for first in (1, 4):
            await self.publish(*(("a", number) for number in range(first, first + 3)))
        await self.ended(run)

    async def held(self) -> None:
        run = await self.start("held")
        await asyncio.sleep(0.5)
        await run.suspend()
        await asyncio.sleep(9)
        await run.resume()
        await self.ended(run)
        run = await self.start("overheld")
        await asyncio.sleep(1.5)
        await run.suspend()
        await asyncio.sleep(20)
        await run.resume()
        await self.ended(run)
        run = await self.start("held", number=2)
        await asyncio.sleep(1.5)
        await run.cancel()
        await self.ended(run)

    async def channels(self) -> None:
        run = await self.start("channels", {"n": 5})
        for stands, numbers in ((1, (1, 2)), (2, (1, 2, 3))):
            async with self._loop.outside():
                while self._log.subscribed < stands:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            for number in numbers:
                async with self._log.changed:
                    self._log.messages.append(orjson.dumps({"n": number}))
                    self._log.changed.notify_all()
            await asyncio.sleep(1)
        await self.ended(run)

    async def schedules(self) -> None:
        await self._runtime.schedule(self._documents["ends"])
        await asyncio.sleep(17)
        await self._runtime.unschedule("golden/ends")
        await self._runtime.schedule(self._documents["events"])
        await asyncio.sleep(1)
        await self.publish(("placed", {"id": 1}), ("placed", {"id": 2}))
        await self.publish(("cleared", {"id": 2}), ("cleared", {"id": 3}), ("cleared", {"id": 1}))
        await self._runtime.unschedule("golden/events")


async def record(url: str, stub: str, own: str) -> list[dict[str, Any]]:
    """Play all documents, and return their histories."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, KitLoop)
    log = Log()
    limits = StructuralLimits(continue_as_new_events=40)
    async with (
        TestEnvironment(url=url, seed=2026, limits=limits, interceptors=[Patience(loop)]) as env,
        Runtime(
            env.client,
            secrets=Secrets.mapping({"token": "t0ken"}),
            http=HttpPolicy(rewrite={**dict.fromkeys(HOSTS, stub), OWN_HOST: own}),
            processes=ProcessPolicy(shell=True, scripts={"python": [sys.executable]}),
            channels={"kafka": log},
        ) as runtime,
        env.new_worker(
            workflows=[*runtime.workflows, programs_documents.charge], activities=runtime.activities
        ),
    ):
        async with asyncio.timeout(86_400):
            await Recording(env, runtime, log, loop).all()
        return await ended_runs(env.client)


def main() -> None:
    """Record and write."""
    with asyncio.Runner(loop_factory=KitLoop) as runner, tempfile.TemporaryDirectory() as folder:
        loop = runner.get_loop()
        assert isinstance(loop, KitLoop)
        with serving(loop.hang) as stub, answering() as own:
            write(PATH, runner.run(record(f"sqlite:///{folder}/golden.db", stub, own)))


if __name__ == "__main__":
    main()
