"""Makes the histories of a module of programs: ``python -m tests.histories.make tests.histories.programs``.

They are written beside the module, once: what is there already is never written again.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from tests.recorded import ROOT

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
        assert await env.client.count(open=True) == 0, "a run is still open"
        documents = [document async for document in env.client.export_histories()]
    return sorted(documents, key=lambda document: str(document["run"]["run_id"]))


def main(module: str) -> None:
    """Record and write."""
    programs = import_module(module)
    path = Path(str(programs.__file__)).with_suffix(".jsonl")
    with TemporaryDirectory() as folder:
        # Transactional activities need a second connection, which a database in memory has not.
        documents = TestEnvironment.run(record, programs, f"sqlite:///{folder}/golden.db")
    with path.open("xb") as file:
        for document in documents:
            # Stacks name files; where this checkout lies is nobody's business.
            file.write(orjson.dumps(document).replace(f"{ROOT}/".encode(), b"") + b"\n")
    print(f"{len(documents)} histories: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
