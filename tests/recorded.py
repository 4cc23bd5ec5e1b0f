"""Every history that the tests record is replayed: where its workflow can be imported, in a fresh process with another
``PYTHONHASHSEED``, at the end of the session; where it is a test's own, here, when the test's database is closed.

Histories of one shape (the same workflow, the same types of events in a row) are replayed once a session.

As a program (``python -m tests.recorded FILE``) it is that fresh process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast.testing.prefix_replay import check_every_prefix
from outlast.worker.settings import WorkerSettings
from outlast_dag import any_dag
from outlast_dag.spec.dag import ANY_DAG
from outlast_store.database.sql_text import fetch
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import WorkflowDefinition, definition_for, definition_of
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Row, replay

ROOT = Path(__file__).parents[1]
MOST_EVENTS_BY_PREFIX = 60


@dataclass(frozen=True, slots=True)
class Code:
    """A workflow as some worker of the test had it."""

    definition: WorkflowDefinition
    settings: WorkerSettings

    def machine(self, run_id: str) -> WorkflowMachine:
        settings = self.settings
        return WorkflowMachine(
            self.definition,
            run_id,
            converter=settings.converter,
            limits=settings.limits,
            default_activity_options=settings.default_activity_options,
            failure_types=settings.failure_types,
        )

    @property
    def target(self) -> str | None:
        """Where another process finds the very same code."""
        code: Any = self.definition.cls or self.definition.fn
        module, name = code.__module__, code.__qualname__
        plain = WorkerSettings("elsewhere", ["default"], DataConverter())
        usual = all(
            getattr(self.settings, name) == getattr(plain, name)
            for name in ("failure_types", "default_activity_options", "interceptors")
        )
        if not module.startswith("tests.") or "." in name or self.settings.converter.codec or not usual:
            return None
        found = getattr(sys.modules.get(module), name, None)
        same = found is not None and definition_of(found) is self.definition
        return f"{module}:{name}" if same else None


class Recorder:
    """Collects the histories of a session."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="outlast-histories-")
        self.path = Path(self._folder.name) / "histories.jsonl"
        self._seen: set[bytes] = set()
        self.count = 0
        self.listening = True
        """A test that records on purpose what does not replay switches it off."""

    def close(self) -> None:
        self._folder.cleanup()

    def take(self, connection: Connection, known: Mapping[str, list[Code]]) -> Iterator[str]:
        """Keep the histories of a database for the fresh process, or replay them; yields what is wrong with them.

        Histories of runs whose task keeps failing are left out: they are about code that can't be run.
        """
        if not self.listening:
            return
        for run_id, (workflow_type, kinds) in _shapes(connection).items():
            codes = known.get(workflow_type, [])
            if not codes or _failing(kinds):
                continue
            targets = {code.target for code in codes}
            target = targets.pop() if len(targets) == 1 else None
            shape = hashlib.blake2b(" ".join(kinds).encode(), digest_size=12)
            shape.update(target.encode() if target is not None else str(id(codes[-1].definition)).encode())
            if shape.digest() in self._seen:
                continue
            self._seen.add(shape.digest())
            rows = read_history(connection, run_id)
            if target is not None:
                with self.path.open("ab") as file:
                    file.write(orjson.dumps([target, run_id, rows]) + b"\n")
                self.count += 1
                continue
            errors = [_replayed(code.machine(run_id), rows) for code in codes]
            if None not in errors:
                yield f"run {run_id} ({workflow_type}) does not replay: {errors[-1]}"

    def replay_elsewhere(self) -> str:
        """Replay what was kept in a process of its own; returns what that says is wrong."""
        if not self.count:
            return ""
        seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "17"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.recorded", str(self.path)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=600,
        )
        return done.stdout + done.stderr if done.returncode else ""


def _shapes(connection: Connection) -> dict[str, tuple[str, list[str]]]:
    text = "SELECT run_id, workflow_type FROM workflow_runs"
    found: dict[str, tuple[str, list[str]]] = {run_id: (kind, []) for run_id, kind in fetch(connection, text)}
    for run_id, kind in fetch(connection, "SELECT run_id, type FROM history_events ORDER BY run_id, seq"):
        if run_id in found:
            found[run_id][1].append(kind)
    return found


def _failing(kinds: list[str]) -> bool:
    """Whether the last word on the run's code is that it failed."""
    words = [kind for kind in kinds if kind in ("WorkflowTaskFailed", "WorkflowTaskCompleted")]
    return bool(words) and words[-1] == "WorkflowTaskFailed"


def _replayed(machine: WorkflowMachine, rows: list[Row]) -> BaseException | None:
    try:
        replay(machine, rows)
    except Exception as error:
        return error
    finally:
        machine.evict()
    return None


def known_code(
    owners: list[tuple[WorkerSettings, Mapping[str, WorkflowDefinition]]],
) -> dict[str, list[Code]]:
    """By name, each workflow that some worker had, in every form in which one had it."""
    known: dict[str, dict[tuple[int, int], Code]] = defaultdict(dict)
    for settings, workflows in owners:
        for name, definition in workflows.items():
            known[name].setdefault((id(definition), id(settings)), Code(definition, settings))
    return {name: list(codes.values()) for name, codes in known.items()}


# --- the fresh process ----------------------------------------------------------------------------------------------


def check_line(line: bytes, most_by_prefix: int = MOST_EVENTS_BY_PREFIX) -> Iterator[str]:
    """Replay a history whole, and, if it is short, every prefix of it; yields what is wrong."""
    target, run_id, rows = orjson.loads(line)
    module, _, name = target.partition(":")
    definition = _named(import_module(module), name)
    settings = WorkerSettings("elsewhere", ["default"], DataConverter(), limits=StructuralLimits())
    make = partial(Code(definition, settings).machine, run_id)
    error = _replayed(make(), rows)
    if error is not None:
        yield f"{target}, run {run_id}: {type(error).__name__}: {error}"
    elif len(rows) <= most_by_prefix and not any(kind == "WorkflowTaskFailed" for _, kind, _ in rows):
        # Where a task failed, the test has changed meanwhile what the code does live.
        for what in check_every_prefix(make, rows):
            yield f"{target}, run {run_id}: {what}"


def _named(module: Any, name: str) -> WorkflowDefinition:
    """Return the workflow of a type: what a module calls so, or one of its families of types."""
    if name == ANY_DAG:
        # The engine's own workflow type is none that a module could name.
        return definition_of(any_dag)
    if hasattr(module, name):
        return definition_of(getattr(module, name))
    found = definition_for({one.name: one for one in map(definition_of, module.WORKFLOWS)}, name)
    assert found is not None, f"{module.__name__} has no workflow {name!r}"
    return found


def main() -> int:
    logging.disable()
    found: list[str] = []
    with Path(sys.argv[1]).open("rb") as file:
        for line in file:
            found += check_line(line)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
