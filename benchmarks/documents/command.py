"""What documents cost.

Measure what documents of the Serverless Workflow DSL cost: a call beside the same workflow in Python, tasks,
expressions, replay, checking, the routing of events, and how late a watchdog decides deadlines. Every result is
checked. What is compared takes turns, and the median of the ratios of neighbouring turns counts. Processor time is that
of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

from benchmarks.documents.deadlines import deadlines
from benchmarks.documents.events import routing
from benchmarks.harness.figures import Figure, save, show
from benchmarks.harness.measuring import Timing, WrongResultError, expect, percentile, timed
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.harness.tuning import tune, untuned
from outlast import Client, Worker, activity, workflow
from outlast.testing import Replayer
from outlast_serverless import Document, DocumentRun, Runtime
from outlast_serverless.jq import Evaluator
from outlast_serverless.plan.model import Expression

HEAD = "document: {dsl: '1.0.3', namespace: bench, name: NAME, version: '1.0.0'}\n"
CHECKED = re.compile(r"tasks?, \d+ warnings?$", re.M)
"""What is told of each document that is in order."""
IN_FLIGHT = 20
"""How many calls are under way at once: a client that is shared by hundreds looks through its connections for each."""
EXAMPLES = Path(__file__).parents[2] / "tests" / "serverless" / "examples"
SERVER = """
import asyncio

async def answer(reader, writer):
    while (line := await reader.readline()):
        while (await reader.readline()).strip():
            pass
        body = b'{"total": 42}'
        head = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body)
        writer.write(head + body)
        await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
"""A server in a process of its own, so that its processor time is not counted."""


@dataclass(slots=True)
class Sizes:
    """How much is measured."""

    calls: int = 200
    turns: int = 9
    tasks: int = 900
    runs: int = 20
    paths: int = 100_000
    programs: int = 2_000
    replays: int = 20
    files: int = 100
    waiting: tuple[int, int] = (100, 10_000)
    events: int = 1_000
    deadlines: int = 10_000


QUICK = Sizes(20, 3, 200, 3, 5_000, 200, 3, 10, (20, 200), 100, 300)


# --- one call ---------------------------------------------------------------------------------------------------------

CALL = (
    HEAD.replace("NAME", "call")
    + """
do:
  - call: {call: http, with: {method: get, endpoint: "http://127.0.0.1:PORT/order"}}
"""
)


_clients: dict[int, httpx2.AsyncClient] = {}


@activity.defn(start_to_close_timeout=60)
async def fetch(port: int) -> Any:
    """Do what the call of the document does, by a client that all calls share."""
    answer = await _clients[port].get(f"http://127.0.0.1:{port}/order")
    answer.raise_for_status()
    return answer.json()


@workflow.defn(run_timeout=600)
async def by_hand(port: int) -> Any:
    """Do what the document does."""
    return await fetch(port)


@contextmanager
def server() -> Generator[int]:
    """Serve in another process, and yield the port."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def one_call(sizes: Sizes) -> list[Figure]:
    """Compare a document of one call with the same workflow in Python."""
    with server() as port:
        return asyncio.run(_one_call(sizes, port))


async def _one_call(sizes: Sizes, port: int) -> list[Figure]:
    document = Document.parse(CALL.replace("PORT", str(port)))
    _clients[port] = httpx2.AsyncClient(trust_env=False)
    async with Client.connect("sqlite://") as client, Runtime(client) as runtime, _clients[port]:
        worker = Worker(
            client, workflows=[by_hand, *runtime.workflows], activities=[fetch, *runtime.activities]
        )
        async with worker:

            async def of_document() -> Any:
                return await (await runtime.start(document)).result()

            async def of_python() -> Any:
                return await client.execute(by_hand, port)

            ours: list[Timing] = []
            theirs: list[Timing] = []
            room = asyncio.Semaphore(IN_FLIGHT)

            async def in_room(one: Callable[[], Awaitable[Any]]) -> Any:
                async with room:
                    return await one()

            for number in range(sizes.turns + 1):
                turns = ((of_document, ours), (of_python, theirs))
                for one, into in turns if number % 2 else reversed(turns):
                    with timed(sizes.calls) as timing:
                        found = await asyncio.gather(*(in_room(one) for _ in range(sizes.calls)))
                    expect("what the calls returned", found, [{"total": 42}] * sizes.calls)
                    if number:
                        into.append(timing)
    pairs = list(zip(ours, theirs, strict=True))
    share = statistics.median(python.cpu_s / document_.cpu_s for document_, python in pairs)
    details = {
        "by time": statistics.median(python.wall_s / document_.wall_s for document_, python in pairs),
        "CPU µs": statistics.median(one.cpu_us for one in ours),
        "CPU µs in Python": statistics.median(one.cpu_us for one in theirs),
    }
    what = "a document of one call: its share of the rate of the same workflow in Python, by CPU"
    return [Figure("call", "sqlite", what, share * 100, "%", 50, at_least=True, details=details)]


# --- tasks ------------------------------------------------------------------------------------------------------------


def _document(tasks: int) -> Document:
    """Return a document of tasks that take what they set by paths."""
    lines = "".join(
        f"  - t{number}: {{set: {{count: '${{ .count }}', order: '${{ $input.order }}'}}}}\n"
        for number in range(tasks)
    )
    return Document.parse(f"{HEAD.replace('NAME', f'tasks{tasks}')}do:\n{lines}")


async def _ran(runtime: Runtime, document: Document, given: Any) -> DocumentRun:
    run = await runtime.start(document, given)
    expect("what the tasks set", await run.result(), given)
    return run


def pure_tasks(sizes: Sizes) -> list[Figure]:
    """Measure what a task costs that waits for nothing, and its replay."""
    return asyncio.run(_pure_tasks(sizes))


async def _pure_tasks(sizes: Sizes) -> list[Figure]:
    many, few = _document(sizes.tasks), _document(1)
    given = {"count": 1, "order": {"id": 7}}
    spent: dict[int, list[float]] = {1: [], sizes.tasks: []}
    async with Client.connect("sqlite://") as client, Runtime(client) as runtime:
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            for number in range(sizes.runs + 1):
                for tasks, document in ((1, few), (sizes.tasks, many)):
                    before = time.process_time()
                    await _ran(runtime, document, given)
                    if number:
                        spent[tasks].append(time.process_time() - before)
            history = [event async for event in (await _ran(runtime, many, given)).handle.history()]
        each = (statistics.median(spent[sizes.tasks]) - statistics.median(spent[1])) / (sizes.tasks - 1)
        replayer = Replayer(workflows=runtime.workflows)
        rates = []
        for _ in range(sizes.replays):
            before = time.process_time()
            report = replayer.replay(history)
            rates.append(sizes.tasks / (time.process_time() - before))
            expect("how many runs were replayed", report.runs, 1)
    return [
        Figure("task", "sqlite", "a task that sets two values by paths, CPU", each * 1e6, "µs", 60),
        Figure(
            "replay",
            "–",
            "tasks replayed in a second of CPU",
            statistics.median(rates),
            "/s",
            20_000,
            at_least=True,
        ),
    ]


# --- expressions ------------------------------------------------------------------------------------------------------


def expressions(sizes: Sizes) -> list[Figure]:
    """Measure paths, and programs that the helper runs."""
    items = [{"id": number, "price": number * 2} for number in range(20)]
    data = {"order": {"items": items}}
    path = Expression(".order.items[3].id", "/do/0/a/set")
    program = Expression(".order.items | map(.price) | add", "/do/0/a/set")
    latencies = []
    with Evaluator() as evaluator:
        evaluate: Callable[..., Any] = evaluator.evaluate
        expect("the path", evaluate(path, data, {}, 0.0), 3)
        with timed(sizes.paths) as paths:
            for _ in range(sizes.paths):
                evaluate(path, data, {}, 0.0)
        expect("the program", evaluate(program, data, {}, 0.0), 380)
        for _ in range(sizes.programs):
            before = time.perf_counter()
            evaluate(program, data, {}, 0.0)
            latencies.append(time.perf_counter() - before)
    p50 = statistics.median(latencies) * 1e6
    details = {"p99 µs": percentile(latencies, 0.99) * 1e6, "count": sizes.programs}
    return [
        Figure("path", "–", "a path of four steps, CPU", paths.cpu_us, "µs", 3),
        Figure("program", "–", "a program of jq over 20 items, p50", p50, "µs", 150, details=details),
    ]


# --- checking ---------------------------------------------------------------------------------------------------------


def checking(sizes: Sizes) -> list[Figure]:
    """Measure `outlast serverless validate` on many files."""
    examples = sorted(EXAMPLES.glob("*.yaml"))
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        files = []
        for number in range(sizes.files):
            file = Path(folder) / f"{number}.yaml"
            file.write_bytes(examples[number % len(examples)].read_bytes())
            files.append(str(file))
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "outlast", "serverless", "validate", *files],
            capture_output=True,
            text=True,
            check=False,
        )
        wall = time.perf_counter() - wall
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    expect("whether the documents are in order", (done.returncode, done.stderr), (0, ""))
    expect("how many were checked", len(CHECKED.findall(done.stdout)), len(files))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    what = f"validate on {sizes.files} files, CPU of the command"
    return [Figure("validate", "–", what, cpu, "s", 5, details={"time s": wall})]


def events(sizes: Sizes) -> list[Figure]:
    """Measure how events reach runs that correlate."""
    return routing(sizes.waiting, sizes.events)


PARTS: dict[str, Callable[[Sizes], list[Figure]]] = {
    "call": one_call,
    "tasks": pure_tasks,
    "expressions": expressions,
    "validate": checking,
    "events": events,
    "deadlines": lambda sizes: deadlines(sizes.deadlines),
}


def main(argv: list[str] | None = None, sizes: Sizes | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.documents", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts")
    parser.add_argument("--untuned", action="store_true", help="leave Python's garbage collector as it is")
    parser.add_argument("--deadlines", type=int, help="how many deadlines pass")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    sizes = sizes or (QUICK if options.quick else Sizes())
    if options.deadlines:
        sizes = replace(sizes, deadlines=options.deadlines)
    console = Console(width=None if sys.stdout.isatty() else 160)
    facts = {"machine": machine(), "process": untuned() if options.untuned else tune()}
    figures: list[Figure] = []
    wrong = 0
    with console.status("…") as status:
        for name in options.only:
            status.update(name)
            try:
                figures += PARTS[name](sizes)
            except WrongResultError as error:
                wrong = 1
                console.print(f"[red]wrong[/]: {name}: {error}")
    show(console, facts, figures)
    console.print(f"kept in {save(facts, figures, asdict(sizes), options.results, 'documents')}")
    return wrong
