"""What the page of a run shows of its document: where it is, its deadlines to scale, the picture and the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from markupsafe import Markup

from outlast import Client
from outlast.http_parts import RunSection
from outlast.visibility.columns import decoded
from outlast.visibility.views import WorkflowDescription
from outlast_serverless.documents.digest import digest
from outlast_serverless.interpreter.faults import is_timeout
from outlast_serverless.interpreter.request import TYPE_PREFIX, Loaded, load
from outlast_serverless.pages.past import Setback, ended_steps, looks_of, name_of, setbacks_of
from outlast_serverless.pages.scale import Scale, scale_of
from outlast_serverless.pages.text import Text, first_lines, lines_of, lit
from outlast_serverless.picture.svg import Look, svg
from outlast_serverless.runtime.registry import digest_of
from outlast_serverless.runtime.run import DocumentRun, DocumentState, OpenTask
from outlast_store.reads.histories import find_event
from outlast_workflow.history.events import stored_payload

STYLE: Final = "serverless/documents.css"
ERROR_PARTS: Final = frozenset({"type", "status", "title", "detail", "instance"})
"""What of an error is told to those who see no payloads: the rest was added by the document, and is data."""
AROUND: Final = frozenset({"timeout", "attempt", "retry"})
"""Kinds of what is open that only bound a task."""
_WORDS: Final = {
    "wait": "waits",
    "listen": "listens",
    "backoff": "waits to try again",
    "call": "calls",
    "run": "runs",
    "emit": "emits",
    "suspended": "is held back",
    "timeout": "timeout",
    "attempt": "timeout of the attempt",
    "retry": "limit of all attempts",
}
_FAULTED: Final = {"failed": "faulted", "timed_out": "timed out"}
_QUIET: Final = frozenset(
    {"around", "around_failed", "around_timed_out", "completed", "skipped", "cancelled"}
)
"""Looks of boxes that are not lit in the text."""
_MARKS: Final = {"it": "index", "event": "index", "att": "attempt"}
"""What a mark of an execution is called; the position in a list counts from 0, as the variable ``index`` does."""
_BY: Final = {"call": "called by", "of": "around"}
"""Marks that name another task."""


@dataclass(frozen=True, slots=True)
class ShownTask:
    """An open task in words.

    Attributes:
        name: Its name.
        words: What it does, and which iteration or attempt it is.
        fires: Whether its time is when it goes on, not when it is too late.
        line: The line of the text in which it begins, if it is there.
    """

    name: str
    words: str
    fires: bool
    line: int | None


@dataclass(frozen=True, slots=True)
class DocumentView:
    """What is shown of a run.

    Attributes:
        state: Where it stands.
        title: The document's title, if it has one.
        registered: Whether its document is registered with this content.
        scale: The deadlines.
        tasks: The open tasks in words, in the order of ``state.open``.
        picture: The picture; ``None`` if the document is too large for one.
        text: The text.
        error: The error, as far as whoever looks may see it.
        look: How the error is shown.
        suspended: Whether it is suspended.
        setbacks: The attempts that have failed, where a task waits for the next one.
    """

    state: DocumentState
    title: str | None
    registered: bool
    scale: Scale | None
    tasks: tuple[ShownTask, ...]
    picture: Markup | None
    text: Text
    error: dict[str, Any] | None
    look: str
    suspended: bool
    setbacks: tuple[Setback, ...]


async def run_section(client: Client, found: WorkflowDescription, payloads: bool) -> RunSection | None:
    """Return what is shown of a run; ``None`` if it is not one of a document.

    Args:
        client: A client of the database.
        found: The run.
        payloads: Whether whoever looks sees payloads.
    """
    if not found.workflow_type.startswith(TYPE_PREFIX):
        return None
    loaded = await _loaded(client, found)
    view = None if loaded is None else await _view(client, found, loaded, payloads)
    if view is None:
        return RunSection("serverless/run_section.html", STYLE, {"view": None})
    # Where it is, or why it failed, comes first; of what has ended well, the result.
    leads = found.run.closed_at is None or view.error is not None
    return RunSection("serverless/run_section.html", STYLE, {"view": view}, leads, "input")


async def _loaded(client: Client, found: WorkflowDescription) -> Loaded | None:
    """Return the definition that a run was started with; ``None`` if it cannot be read."""
    run_id = found.run.run_id
    first = await client.runtime.read(find_event, run_id, 1)
    if first is None:
        return None
    stored = stored_payload(first[1], run_id, 1).get("input")
    given = decoded(orjson.dumps(stored).decode(), client.converter, run_id)
    if not isinstance(given, list) or len(given) != 1 or not isinstance(given[0], dict):
        return None
    try:
        return load(given[0]["definition"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        # Anybody can start a workflow of such a type, with anything.
        return None


async def _view(client: Client, found: WorkflowDescription, loaded: Loaded, payloads: bool) -> DocumentView:
    run = found.run
    handle = DocumentRun(client.handle(found.workflow_id, run_id=run.run_id), client.runtime)
    state = await handle.state(found)
    lines = lines_of(loaded.definition)
    steps = await ended_steps(handle, found)
    looks = _looks(state, looks_of(steps))
    at = first_lines(lines, {one.pointer for one in state.open})
    head = loaded.definition["document"]
    registered = await client.runtime.read(digest_of, head["namespace"], head["name"], head["version"])
    is_open = run.closed_at is None
    error = None if state.error is None else _told(state.error, payloads)
    setbacks = [
        replace(one, error=_told(one.error, payloads=False)) for one in setbacks_of(state.open, steps)
    ]
    picture = svg(loaded.plan, f"{head['namespace']}/{head['name']}", looks)
    timeout = found.execution_timeout_seconds
    return DocumentView(
        state,
        head.get("title"),
        registered == digest(loaded.definition),
        scale_of(state, run.created_at, found.described_at, timeout) if is_open else None,
        tuple(_shown(one, at.get(one.pointer)) for one in state.open),
        Markup(picture) if picture else None,  # What draws has escaped the names in it.
        lit(lines, {pointer: look.state for pointer, look in looks.items() if look.state not in _QUIET}),
        error,
        "" if error is None else _error_look(error),
        bool((run.memo or {}).get("suspended")),
        tuple(setbacks),
    )


def _told(error: dict[str, Any], payloads: bool) -> dict[str, Any]:
    """Return what of an error is told: all of it, or what is no data."""
    return error if payloads else {name: value for name, value in error.items() if name in ERROR_PARTS}


def _looks(state: DocumentState, ended: dict[str, Look]) -> dict[str, Look]:
    """Return how the tasks of a document stand, by pointer.

    Args:
        state: Where it stands.
        ended: How the tasks that have run ended last.
    """
    found: dict[str, Look] = {}
    if state.error is not None:
        instance = str(state.error.get("instance"))
        look = _error_look(state.error)
        pointer = "/timeout" if instance == "/" and look == "timed_out" else instance
        words = ended[pointer].words if pointer in ended else _FAULTED[look]
        found[pointer] = Look(look, words)
        for above in _above(pointer):
            found.setdefault(above, Look(f"around_{look}", ended[above].words if above in ended else ""))
    counts: dict[str, int] = {}
    for one in state.open:
        if one.kind in AROUND:
            continue
        counts[one.pointer] = counts.get(one.pointer, 0) + 1
        count = f", {counts[one.pointer]} times" if counts[one.pointer] > 1 else ""
        state_of_box = "backing_off" if one.kind in ("backoff", "suspended") else "running"
        words = _words(one) if not count else f"{_WORDS.get(one.kind, one.kind)}{count}"
        found[one.pointer] = Look(state_of_box, words)
    for one in state.open:
        for above in _above(one.pointer):
            found.setdefault(above, Look("around", ""))
    return {**ended, **found}


def _error_look(error: dict[str, Any]) -> str:
    return "timed_out" if is_timeout(error) else "failed"


def _above(pointer: str) -> Iterable[str]:
    parts = pointer.split("/")
    return ("/".join(parts[:length]) for length in range(2, len(parts) + 1))


def _words(task: OpenTask) -> str:
    marks = [mark.partition("=") for mark in task.execution.split(",")]
    told = [
        f"{_BY[name]} {name_of(value)}" if name in _BY else f"{_MARKS.get(name, name)} {value}"
        for name, given, value in marks
        if given
    ]
    return ", ".join([_WORDS.get(task.kind, task.kind), *told])


def _shown(task: OpenTask, line: int | None) -> ShownTask:
    return ShownTask(name_of(task.pointer), _words(task), task.kind in ("wait", "backoff"), line)
