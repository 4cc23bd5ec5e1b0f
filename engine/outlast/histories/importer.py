"""Importing histories: closed runs of another database, to be viewed and replayed here, never run.

Everything is checked before anything is written: each history against the transitions table, each row against its
columns, each chain for gaps. Then each workflow id is imported by one change, which checks again under the lock that
the id is not in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import orjson

from outlast.histories.source import Documents, Source
from outlast.runtime.runtime import Runtime
from outlast_runs.imported_runs import ImportWorkflow
from outlast_store.reads.export_format import PortableRun, read_run
from outlast_store.reads.runs import find_known_workflows, find_runs
from outlast_store.schema.rows import ActivityRow, StreamItemRow, StreamRow
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.errors.history import HistoryExistsError, InvalidHistoryError
from outlast_workflow.history.events import (
    REGISTRY,
    ActivityScheduled,
    ActivityTimedOut,
    Event,
    WorkflowStarted,
    from_json,
)
from outlast_workflow.history.transitions import STATUS_AFTER, check_history
from outlast_workflow.options.progress import progress_json
from outlast_workflow.options.search_attributes import checked_attributes, from_document
from outlast_workflow.options.validation import (
    priority,
    validate_partition_key,
    validate_queue,
    validate_workflow_id,
)
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES
from outlast_workflow.primitives.times import from_iso

IDS_PER_READ: Final = 500
OPEN_ACTIVITY = ("pending", "running")
SAME_IN_STARTED = (
    "workflow_id",
    "workflow_type",
    "task_queue",
    "priority",
    "first_run_id",
    "run_number",
    "attempt",
    "previous_run_id",
    "summary",
    "queue",
)

Progress = Callable[[str, int], None]
"""Called with the phase (``check`` or ``import``) and how far it is: in the source's measure, or in runs."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought in."""

    workflows: int
    runs: int
    events: int


@dataclass(slots=True)
class _Member:
    """A run of a file: where it is, and its place in its chain."""

    place: int
    name: str
    run_id: str
    run_number: int
    first_run_id: str
    next_run_id: str | None


async def import_histories(runtime: Runtime, source: Source, progress: Progress | None = None) -> Imported:
    """Import all runs of a source.

    Args:
        runtime: The database.
        source: A file's path, a document, or several.
        progress: Called after each document that is checked and each workflow that is imported.

    Raises:
        InvalidHistoryError: A document, a history or a chain is invalid, or a run is open; nothing was written.
        HistoryExistsError: The database has one of the workflow ids or runs already.
    """
    documents = Documents(source)
    report = progress or (lambda phase, done: None)
    workflows: dict[str, list[_Member]] = defaultdict(list)
    if not documents.size:
        return Imported(0, 0, 0)
    for place, name, document in documents:
        found = read_run(document, name)
        check_run(found, name)
        _completed(found, name)
        run = found.run
        member = _Member(
            place, name, run["run_id"], run["run_number"], run["first_run_id"], run["next_run_id"]
        )
        workflows[run["workflow_id"]].append(member)
        report("check", place)
    for members in workflows.values():
        _check_chains(members)
    await _check_new(runtime, workflows)
    runs = events = 0
    for members in workflows.values():
        rows = [
            _completed(read_run(documents.at(member.place), member.name), member.name) for member in members
        ]
        await runtime.journal.apply(ImportWorkflow(rows))
        runs += len(rows)
        events += sum(len(one.rows["events"]) for one in rows)
        report("import", runs)
    return Imported(len(workflows), runs, events)


# --- checks --------------------------------------------------------------------------------------------------------


def check_run(found: PortableRun, place: str) -> None:
    """Check that a run is closed and that its rows agree with its history.

    Args:
        found: The run.
        place: Where it was found, for the message of an error.

    Raises:
        InvalidHistoryError: The run is open, its history is invalid, or a row disagrees with it.
    """
    run, events = found.run, _events(found, place)
    _check_values("run", run, place)
    for seq, event in enumerate(events, 1):
        if isinstance(event, ActivityScheduled):
            values = {name: getattr(event, name, None) for name in _CHECKED}
            _check_values(f"the payload of event {seq}", values, place)
    problems = check_history(events)
    if problems:
        raise InvalidHistoryError(
            f"the history of run {run['run_id']} is invalid: {problems[0]}", place=place
        )
    last = events[-1]
    if not last.terminal or run["closed_at"] is None or run["status"] in OPEN_RUN_STATUSES:
        raise InvalidHistoryError(
            f"run {run['run_id']} is {run['status']}: only closed runs are imported, so that nothing runs twice; "
            "export it again when it has ended, or leave it out (`outlast export --closed`)",
            place=place,
        )
    for what in _disagreements(run, events[0], last):
        raise InvalidHistoryError(f"run.{what} is not what its history says", place=place)
    if run["search_attributes"] is not None:
        _check_attributes("run.search_attributes", orjson.loads(run["search_attributes"]), place)
    for seq, event in enumerate(events, 1):
        document = getattr(event, _ATTRIBUTES.get(event.type, ""), None)
        if document is not None:
            _check_attributes(f"the search attributes of event {seq}", document, place)
    _check_progress(run, place)
    columns = list(ActivityRow.__dataclass_fields__)
    status, closed_at = columns.index("status"), columns.index("closed_at")
    for row in found.rows["activities"]:
        if row[status] in OPEN_ACTIVITY or row[closed_at] is None:
            raise InvalidHistoryError(f"an activity of run {run['run_id']} is open", place=place)
    _check_streams(found, place)
    if any(row[6] == "open" for row in found.rows["requests"]):
        raise InvalidHistoryError(f"a request to run {run['run_id']} is open", place=place)


_ATTRIBUTES: Final = {
    "WorkflowStarted": "search_attributes",
    "WorkflowContinuedAsNew": "search_attributes",
    "SearchAttributesUpserted": "attributes",
}
"""The fields of events that hold search attributes: a reset writes them to the index again."""


_CHECKED: Final[dict[str, Callable[[Any], object]]] = {
    "workflow_id": validate_workflow_id,
    "priority": priority,
    "queue": validate_queue,
    # A run of a queue without a key has the empty one.
    "partition_key": lambda key: key == "" or validate_partition_key(key),
}
"""What a reset would have stand in line: no reader of lines and queues expects anything else there."""


def _check_values(what: str, values: Mapping[str, Any], place: str) -> None:
    for name, check in _CHECKED.items():
        if values.get(name) is None:
            continue
        try:
            check(values[name])
        except InvalidOptionError as error:
            raise InvalidHistoryError(f"{what}.{name}: {error.message}", place=place) from None


def _check_attributes(what: str, document: Any, place: str) -> None:
    try:
        _ = checked_attributes(from_document(document), reserved=True)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidHistoryError(f"{what} are not what they must be", place=place) from None


def _check_progress(run: dict[str, Any], place: str) -> None:
    if run["progress"] is None:
        return
    try:
        progress_json(**orjson.loads(run["progress"]))
    except (TypeError, ValueError):
        raise InvalidHistoryError("run.progress is not what it must be", place=place) from None


def _check_streams(found: PortableRun, place: str) -> None:
    """Check that the items of each stream have the offsets from 0 on, and that there are as many as the stream says."""
    items: dict[str, list[int]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for values in found.rows["stream_items"]:
        item = StreamItemRow(*values)
        items[item.name].append(item.item_offset)
        sizes[item.name] += len(item.value.encode())
    streams = {row.name: row for row in (StreamRow(*values) for values in found.rows["streams"])}
    for name in sorted(items.keys() | streams.keys()):
        stream = streams.get(name)
        if stream is None or sorted(items[name]) != list(range(stream.next_offset)):
            raise InvalidHistoryError(f"stream {name!r:.60} lacks items, or has one twice", place=place)
        if stream.bytes != sizes[name]:
            raise InvalidHistoryError(f"the size of stream {name!r:.60} is wrong", place=place)


def _events(found: PortableRun, place: str) -> list[Event]:
    events: list[Event] = []
    before = 0
    for number, (_, seq, kind, recorded_at, payload) in enumerate(found.rows["events"], 1):
        if kind not in REGISTRY:
            raise InvalidHistoryError(
                f"event {seq} is a {kind!r:.60}, which this Outlast does not know: upgrade it", place=place
            )
        if seq != number:
            raise InvalidHistoryError(f"event {number} is missing: the next one is {seq}", place=place)
        if recorded_at < before:
            raise InvalidHistoryError(f"event {seq} was recorded before the one before it", place=place)
        before = recorded_at
        try:
            events.append(from_json(kind, payload))
        except Exception:
            raise InvalidHistoryError(
                f"the payload of event {seq} ({kind}) is not what it must be", place=place
            ) from None
    if not events:
        raise InvalidHistoryError("it has no events", place=place)
    return events


def _disagreements(run: dict[str, Any], first: Event, last: Event) -> Iterator[str]:
    assert isinstance(first, WorkflowStarted), "the transitions table says so"
    for name in SAME_IN_STARTED:
        if getattr(first, name) != run[name]:
            yield name
    # A run of a queue without a key has the empty one in its row.
    if (first.partition_key or "") != (run["partition_key"] or "") or (run["queue"] is None) != (
        run["partition_key"] is None
    ):
        yield "partition_key"
    if run["status"] != STATUS_AFTER[last.type]:
        yield "status"
    following = getattr(last, "next_run_id", None)
    # A closed run without a next one in its last event may have been reset since.
    if following is not None and run["next_run_id"] != following:
        yield "next_run_id"


def _check_chains(members: list[_Member]) -> None:
    """Check that each chain is complete: it begins with its first run, and each run leads to the next."""
    members.sort(key=lambda member: (member.first_run_id, member.run_number))
    for first_run_id, chain in groupby(members, key=lambda member: member.first_run_id):
        expected: str | None = first_run_id
        for number, member in enumerate(chain, 1):
            if (member.run_id, member.run_number) != (expected, number):
                raise _broken(member)
            expected = member.next_run_id
        if expected is not None:
            raise _broken(members[-1])


def _broken(member: _Member) -> InvalidHistoryError:
    return InvalidHistoryError(
        f"the chain of run {member.run_id} is not whole, or holds a run twice: export all of it "
        "(`outlast export --chain`)",
        place=member.name,
    )


async def _check_new(runtime: Runtime, workflows: dict[str, list[_Member]]) -> None:
    taken: list[str] = []
    ids = list(workflows)
    for start in range(0, len(ids), IDS_PER_READ):
        taken += await runtime.read(find_known_workflows, ids[start : start + IDS_PER_READ])
    run_ids = [member.run_id for members in workflows.values() for member in members]
    for start in range(0, len(run_ids), IDS_PER_READ):
        found = await runtime.read(find_runs, run_ids[start : start + IDS_PER_READ])
        taken += [row.run_id for row in found if row.workflow_id not in workflows]
    if taken:
        raise HistoryExistsError(sorted(taken))


def _completed(found: PortableRun, place: str) -> PortableRun:
    """Return a checked run with what its document lacks: the deadline of a missed heartbeat, from the event.

    Raises:
        InvalidHistoryError: That deadline is no instant.
    """
    missed: dict[int, int] = {}
    for _, seq, kind, _, payload in found.rows["events"]:
        if kind == ActivityTimedOut.__name__:
            event = from_json(kind, payload)
            assert isinstance(event, ActivityTimedOut)
            if event.timeout_kind == "heartbeat":
                try:
                    missed[event.command_id] = from_iso(event.deadline_at)
                except (TypeError, ValueError):
                    raise InvalidHistoryError(
                        f"the deadline_at of event {seq} is no instant", place=place
                    ) from None
    if missed:
        columns = list(ActivityRow.__dataclass_fields__)
        named, at = columns.index("activity_id"), columns.index("heartbeat_deadline_at")
        found.rows["activities"] = [
            (*row[:at], missed.get(row[named], row[at]), *row[at + 1 :]) for row in found.rows["activities"]
        ]
    return found
