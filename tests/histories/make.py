"""Makes the histories of a module of programs: ``python -m tests.histories.make tests.histories.programs``.

They are written beside the module, once: what is there already is never written again.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from tests.recorded import ROOT

from outlast import Client
from outlast.testing import TestEnvironment


async def record(programs: Any, url: str) -> list[dict[str, Any]]:
    """The histories of a module's programs, by run id."""
    async with TestEnvironment(
        url=url,
        workflows=programs.WORKFLOWS,
        activities=programs.ACTIVITIES,
        interceptors=getattr(programs, "INTERCEPTORS", ()),
        seed=2026,
    ) as env:
        await programs.live(env)
        return await ended_runs(env.client)


async def ended_runs(client: Client) -> list[dict[str, Any]]:
    """Return the histories of all runs, which have ended."""
    assert await client.count(open=True) == 0, "a run is still open"
    documents = [document async for document in client.export_histories()]
    return sorted(documents, key=lambda document: str(document["run"]["run_id"]))


def write(module: Path, documents: list[dict[str, Any]]) -> None:
    """Write histories beside their module, unless there are some."""
    path = module.with_suffix(".jsonl")
    with path.open("xb") as file:
        for document in documents:
            line = orjson.dumps(document)
            # Stacks name files; where this checkout and Python lie is nobody's business.
            for folder in (ROOT, sysconfig.get_path("stdlib")):
                line = line.replace(f"{folder}/".encode(), b"")
            file.write(line + b"\n")
    print(f"{len(documents)} histories: {path}")


def main(module: str) -> None:
    """Record and write."""
    programs = import_module(module)
    with TemporaryDirectory() as folder:
        # Transactional activities need a second connection, which a database in memory has not.
        documents = TestEnvironment.run(record, programs, f"sqlite:///{folder}/golden.db")
    write(Path(str(programs.__file__)), documents)


if __name__ == "__main__":
    main(*sys.argv[1:])
