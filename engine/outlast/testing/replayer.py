"""Replaying recorded histories: does the current code still do what the code of then did?

::

    def test_histories_replay() -> None:
        Replayer(workflows=[Order]).replay("tests/histories/orders.jsonl")

The events of a history are applied to its workflow's code, workflow task by workflow task, and the commands of the code
are compared with those in the history. Nothing else runs: no activity, no clock, no database.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Unpack

import orjson

from outlast.client.client import Client
from outlast.client.interceptors import Interceptor, checked_interceptors
from outlast.histories.history_pages import HistoryEvent
from outlast.histories.source import Documents, Source
from outlast.visibility.filters import Filters
from outlast_store.reads.export_format import check_format
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import WorkflowDefinition, definition_for, definitions_of
from outlast_workflow.errors import InvalidOptionError, UnknownWorkflowTypeError
from outlast_workflow.errors.history import InvalidHistoryError
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run import guard
from outlast_workflow.run.interceptors import intercepted
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Row, replay

MOST_KEPT: Final = 100
"""How many failed runs a report keeps; all are counted."""

Loads = Callable[[Any], Any]
"""A function that reads a payload."""

History = Source | Iterable[HistoryEvent]
"""A file that ``outlast export`` wrote, a document or several, or the events that ``handle.history()`` gave."""


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """The replay of a run.

    Attributes:
        events: The length of its history.
        workflow_tasks: How many workflow tasks were replayed.
        error: Why the replay failed, usually a :class:`~outlast.errors.NonDeterminismError`.
    """

    workflow_id: str
    run_id: str
    workflow_type: str
    events: int
    workflow_tasks: int
    error: BaseException | None = None


@dataclass(slots=True)
class ReplayReport:
    """The result of replaying many histories.

    Attributes:
        runs: How many runs were replayed, failed ones included.
        events: How many events they have in total.
        workflow_tasks: How many workflow tasks were replayed.
        failures: How many runs failed.
        failed: The first hundred failed runs.
        skipped: With a database: how many runs were skipped, by type, because their workflow was not given.
    """

    runs: int = 0
    events: int = 0
    workflow_tasks: int = 0
    failures: int = 0
    failed: list[ReplayedRun] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        """Whether every history replayed."""
        return not self.failures

    def raise_for_failures(self) -> None:
        """Raise the error of the first run that failed, with a note that says which run that is."""
        if self.failed:
            first = self.failed[0]
            assert first.error is not None
            more = f"; {self.failures - 1} more runs failed" if self.failures > 1 else ""
            first.error.add_note(f"This is run {first.run_id} of workflow {first.workflow_id!r}{more}.")
            raise first.error

    def add(self, run: ReplayedRun) -> None:
        """Count a run."""
        self.runs += 1
        self.events += run.events
        self.workflow_tasks += run.workflow_tasks
        if run.error is not None:
            self.failures += 1
            if len(self.failed) < MOST_KEPT:
                self.failed.append(run)


class Replayer:
    """Replays histories of some workflows.

    Args:
        workflows: The workflows, as a worker takes them.
        converter: The converter for payloads that a codec encoded.
        default_activity_options: Those of the worker.
        interceptors: Those of the worker. A history records the durable calls of an interceptor, too.
        runtime_guard: Whether the runtime guard is on, as on the worker.

    Raises:
        InvalidOptionError: Something is not a workflow, or two workflows have the same name.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("Replayer")

    def __init__(
        self,
        workflows: Iterable[Any],
        *,
        converter: DataConverter | None = None,
        default_activity_options: ActivityOptions | None = None,
        interceptors: Iterable[Interceptor] = (),
        runtime_guard: bool = True,
    ) -> None:
        self._guarded = runtime_guard
        around = checked_interceptors(interceptors)
        self._workflows: dict[str, WorkflowDefinition] = {}
        for definition in definitions_of(workflows):
            if definition.name in self._workflows:
                raise InvalidOptionError(
                    f"two workflows are called {definition.name!r}: give one another name", field="workflows"
                )
            self._workflows[definition.name] = intercepted(definition, around) if around else definition
        if not self._workflows:
            raise InvalidOptionError("a replayer needs workflows", field="workflows")
        self._converter = converter or DataConverter()
        self._limits = StructuralLimits()
        self._default_activity_options = default_activity_options

    # --- files and documents ------------------------------------------------------------------------------------------

    def replay(
        self,
        history: History,
        *,
        raise_on_failure: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> ReplayReport:
        """Replay all histories of a file, or those given.

        Args:
            history: A path, a document of ``export_history``, several, or the events of ``handle.history()``.
            raise_on_failure: Whether to raise the error of the first run that fails, rather than report it.
            progress: Called with the progress, in bytes of the file or in histories.

        Raises:
            NonDeterminismError: The code no longer does what a history records. It shows the difference side by side.
            UnknownWorkflowTypeError: A history is of a workflow that was not given.
            InvalidHistoryError: What was given is not a history.
        """
        report = ReplayReport()
        for place, run in self.replay_each(history):
            report.add(run)
            if raise_on_failure:
                report.raise_for_failures()
            if progress is not None:
                progress(place)
        return report

    def replay_each(self, history: History) -> Iterator[tuple[int, ReplayedRun]]:
        """Replay run by run, and yield each with the progress.

        Raises:
            InvalidHistoryError: What was given is not a history.
        """
        source: Any = history
        if not isinstance(history, str | PathLike | dict):
            source = list(history)
            if source and _is_event(source[0]):
                rows = [_row_of_event(event) for event in source]
                yield 1, self._replay(rows, _run_id_of(rows), _as_it_is, "the history")
                return
        for place, name, document in Documents(source):
            events: Any = check_format(document, name).get("events")
            try:
                rows = [(event["seq"], event["type"], event["payload"]) for event in events]
                run_id = document["run"]["run_id"]
            except (TypeError, KeyError):
                raise InvalidHistoryError("its run or its events are not valid", place=name) from None
            yield place, self._replay(rows, run_id, _as_it_is, name)

    # --- a database -------------------------------------------------------------------------------------------------

    async def replay_all(
        self,
        client: Client,
        *,
        limit: int | None = None,
        raise_on_failure: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> ReplayReport:
        """Replay the runs of a database, newest first, open ones too, one at a time; nothing is written.

        Args:
            client: A client of the database.
            limit: The most runs to replay.
            raise_on_failure: Whether to raise the error of the first run that fails, rather than report it.
            progress: Called with the number of runs that have been read.
            **filters: As for :meth:`outlast.Client.list`.
        """
        if limit is not None:
            integer("limit", limit, 1)
        report = ReplayReport()
        seen = 0
        async for run in client.list(**filters):
            seen += 1
            if progress is not None:
                progress(seen)
            if definition_for(self._workflows, run.workflow_type) is None:
                report.skipped[run.workflow_type] += 1
                continue
            rows = await client.runtime.read(read_history, run.run_id)
            # Without rows, it was deleted meanwhile.
            if rows:
                report.add(self._replay(rows, run.run_id, orjson.loads, f"run {run.run_id}"))
                if raise_on_failure:
                    report.raise_for_failures()
            if report.runs == limit:
                break
            await asyncio.sleep(0)
        return report

    # --- one run ----------------------------------------------------------------------------------------------------

    def _replay(self, rows: list[Any], run_id: str, loads: Loads, place: str) -> ReplayedRun:
        workflow_id, workflow_type = _started_by(rows, loads, place)
        definition = definition_for(self._workflows, workflow_type)
        if definition is None:
            unknown = UnknownWorkflowTypeError(workflow_type, known=list(self._workflows))
            return ReplayedRun(workflow_id, run_id, workflow_type, len(rows), 0, unknown)
        error, workflow_tasks = self.replay_rows(definition, rows, run_id, loads)
        return ReplayedRun(workflow_id, run_id, workflow_type, len(rows), workflow_tasks, error)

    def replay_rows(
        self, definition: WorkflowDefinition, rows: Iterable[Row], run_id: str, loads: Loads = orjson.loads
    ) -> tuple[BaseException | None, int]:
        """Replay a history of one workflow.

        Args:
            definition: The workflow.
            rows: The seq, type and payload of each event.
            run_id: The id of the run.
            loads: Reads a payload.

        Returns:
            The error of the replay, if it failed, and the number of workflow tasks that were replayed.
        """
        machine = WorkflowMachine(
            definition,
            run_id,
            converter=self._converter,
            limits=self._limits,
            default_activity_options=self._default_activity_options,
            guarded=self._guarded,
        )
        if self._guarded:
            guard.install()
        try:
            replayed = replay(machine, rows, loads)
        except Exception as error:
            return error, machine.log.workflow_task
        finally:
            machine.evict()
            if self._guarded:
                guard.release()
        return None, replayed.workflow_tasks


def _started_by(rows: list[Any], loads: Loads, place: str) -> tuple[str, str]:
    """Return the workflow's id and type, if this is a complete history that this version knows."""
    unknown = {kind for _, kind, _ in rows} - REGISTRY.keys()
    if unknown:
        raise InvalidHistoryError(
            f"it has events that this Outlast does not know ({', '.join(sorted(unknown))[:200]}): upgrade it",
            place=place,
        )
    if (
        not rows
        or rows[0][1] != "WorkflowStarted"
        or [row[0] for row in rows] != list(range(1, len(rows) + 1))
    ):
        raise InvalidHistoryError(
            "it is not complete: it must start with WorkflowStarted, and its numbers must have no gaps",
            place=place,
        )
    started = loads(rows[0][2])
    try:
        return str(started["workflow_id"]), str(started["workflow_type"])
    except (TypeError, KeyError):
        raise InvalidHistoryError("its first event is not valid", place=place) from None


def _is_event(thing: object) -> bool:
    return isinstance(thing, HistoryEvent) or (isinstance(thing, dict) and "seq" in thing and "type" in thing)


def _row_of_event(event: Any) -> Row:
    if isinstance(event, HistoryEvent):
        return event.seq, event.type, event.payload
    return event["seq"], event["type"], event["payload"]


def _run_id_of(rows: list[Row]) -> str:
    """Return the run id, which events contain only if the run is the first of its chain."""
    started = rows[0][2]
    first = isinstance(started, dict) and started.get("run_number") == 1
    return str(started.get("first_run_id")) if first else "replayed"


def _as_it_is(payload: Any) -> Any:
    return payload
