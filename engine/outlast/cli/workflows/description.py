"""``outlast describe``: one workflow in detail."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import orjson
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, RunId, Url, WorkflowId
from outlast.cli.common.output import deadline, document, left, progress_text, show, status, table
from outlast.cli.common.tables import FittedTable, Paragraph
from outlast.cli.workflows.dags import dag_lines, dag_of
from outlast.client.client import Client
from outlast.text.wording import ago, at, capped, clock, counted, label, words
from outlast.visibility.alerts import delivery_words
from outlast.visibility.dags import DagDescription
from outlast.visibility.views import (
    Alert,
    AlertsView,
    ArmedAlert,
    FailureCause,
    FailureView,
    PendingActivity,
    PendingChild,
    PendingSignal,
    PendingTimer,
    PendingUpdate,
    QueuePlace,
    StreamView,
    WorkerView,
    WorkflowDescription,
)
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE, SCHEDULE_ATTRIBUTE

MOST_SHOWN = 20


def describe(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    handlers: Annotated[
        bool,
        typer.Option("--handlers", help="Also ask a worker for the signals, queries and updates it handles."),
    ] = False,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Show a workflow: status, deadlines, pending work, failures, attention."""

    async def work(client: Client) -> None:
        found = await client.describe(workflow_id, run_id)
        listing = await client.handle(workflow_id, run_id=run_id).query("__handlers") if handlers else None
        dag = await dag_of(client, found)
        if json:
            more: dict[str, Any] = {} if listing is None else {"handlers": listing}
            if isinstance(dag, DagDescription):
                more["dag"] = dag.model_dump(mode="json")
            document({**found.model_dump(mode="json"), **more} if more else found)
            return
        _show_description(found)
        if dag is not None:
            show("", *dag_lines(dag))
        if listing is not None:
            show("", _handlers(listing))

    with_client(url, work, codec=codec)


# --- describe, for people -------------------------------------------------------------------------------------------


def _show_description(found: WorkflowDescription) -> None:
    now = found.described_at
    show(_summary(found, now))
    if found.pending_activities:
        show("", _activities(found.pending_activities, now))
        for activity in found.pending_activities[:MOST_SHOWN]:
            if activity.last_failure is not None:
                show(*_last_failure(activity, activity.last_failure))
        for line in _lines(found.pending_activities, now):
            show(line)
        for activity in found.pending_activities[:MOST_SHOWN]:
            if activity.deferred:
                show(_outside(found.workflow_id, activity))
                break
    if found.pending_timers:
        show("", _timers(found.pending_timers, now))
    if found.pending_children:
        show("", _children(found.pending_children, now))
    if found.pending_updates:
        show("", _updates(found.pending_updates, now))
    if found.receiving:
        show("", f"waits to receive: {', '.join(found.receiving)}")
    if found.pending_signals:
        show("", _signals(found.pending_signals, receives=bool(found.receiving)))
    if found.streams:
        show("", _streams(found.streams))
    if found.alerts.armed or found.alerts.fired:
        show("", _alerts(found.alerts, now))
    failures = _alike(_untold(found))
    if failures:
        show("", Text("latest failures", style="bold"))
        for alike in failures:
            show(*_failure(alike, now))


def _summary(found: WorkflowDescription, now: datetime) -> Table:
    run = found.run
    summary = Table(box=None, show_header=False, pad_edge=False)
    summary.add_column(style="bold")
    summary.add_column(overflow="fold")
    summary.add_row("workflow", f"{found.workflow_id} ({found.workflow_type})")
    if run.summary is not None:
        summary.add_row("summary", Text(label(run.summary)))
    summary.add_row("status", status(run.status))
    if run.progress is not None:
        summary.add_row("progress", progress_text(run.progress))
    if found.attention:
        for reason in found.attention_reasons:
            kind = (f"{reason.kind}: ", "bold red")
            summary.add_row("attention", Text.assemble(kind, f"{reason.cause}: {reason.remedy}"))
    summary.add_row(
        "run", f"{run.run_id}, number {run.run_number} of {found.run_count}, attempt {run.attempt}"
    )
    summary.add_row("task queue", f"{run.task_queue}, priority {run.priority}")
    summary.add_row("created", at(run.created_at, now))
    summary.add_row("started", at(run.started_at, now) or "not yet")
    if run.queue is not None:
        summary.add_row("queue", _queue_words(run.queue, now))
    if run.begins_at is not None:
        summary.add_row("next try" if run.task_failures else "starts", at(run.begins_at, now))
    if run.closed_at is not None:
        summary.add_row("closed", at(run.closed_at, now))
    for name, timeout, instant in (
        ("execution", found.execution_timeout_seconds, run.execution_deadline_at),
        ("run", run.run_timeout_seconds, run.run_deadline_at),
    ):
        if instant is None:
            continue
        limit = Text(f", {words(timeout)} in total") if timeout is not None else Text("")
        if name == "run" and (timeout is None or instant - timedelta(seconds=timeout) < run.created_at):
            limit = Text(", as its code has limited it")
        shown = deadline(instant, now) if run.closed_at is None else Text(clock(instant))
        summary.add_row(f"{name} deadline", Text.assemble(shown, limit))
    summary.add_row("history", f"{run.history_length:,} events, {run.history_bytes:,} bytes")
    if run.owner is not None:
        summary.add_row("owner", _worker(run.owner))
    if run.cancel_requested_at is not None:
        summary.add_row("cancel requested", at(run.cancel_requested_at, now))
    if run.task_failures:
        why = f"{run.task_failures} in a row; `outlast history {found.workflow_id}` says why"
        summary.add_row("task failures", Text(why, style="red"))
    if run.owner_losses:
        summary.add_row("owners lost", Text(f"{run.owner_losses} in a row", style="red"))
    if run.build_id is not None:
        summary.add_row("build", run.build_id)
    if run.schedule is not None:
        summary.add_row("schedule", run.schedule)
    if run.forked_from is not None:
        summary.add_row("forked from", run.forked_from)
    if found.forks:
        summary.add_row("forks", ", ".join(found.forks))
    attributes = {
        name: value
        for name, value in run.search_attributes.items()
        if name not in (SCHEDULE_ATTRIBUTE, FORK_ATTRIBUTE)
    }
    if attributes:
        summary.add_row("search attributes", orjson.dumps(attributes).decode())
    if run.memo is not None:
        summary.add_row("memo", orjson.dumps(run.memo).decode())
    return summary


def _worker(worker: WorkerView) -> str:
    where = f"{worker.host}, pid {worker.pid}" if worker.host is not None else "no longer registered"
    return f"{worker.worker_id} ({where}{'' if worker.alive else ', dead'})"


def _activities(activities: Sequence[PendingActivity], now: datetime) -> FittedTable:
    labelled = [] if all(one.summary is None for one in activities) else ["SUMMARY"]
    made = table(
        "ID", "ACTIVITY", *labelled, "STATUS", "ATTEMPT", "TASK QUEUE",
        "SINCE", "DEADLINES", "HEARTBEAT", "WORKER",
        title=_title("pending activity", len(activities)),
        drop=("WORKER", "HEARTBEAT", "TASK QUEUE", "SINCE", "DEADLINES"),
    )  # fmt: skip
    for activity in activities[:MOST_SHOWN]:
        most = f" of {activity.max_attempts}" if activity.max_attempts else ""
        made.add_row(
            str(activity.activity_id),
            activity.activity_type,
            *[Text(label(activity.summary)) for _ in labelled],
            _status(activity),
            f"{activity.attempt}{most}",
            f"{activity.task_queue}, {activity.priority}",
            ago(activity.started_at or activity.available_at, now),
            _deadlines(activity, now),
            _heartbeat(activity, now),
            activity.worker.worker_id if activity.worker is not None else "",
        )
    return made


def _lines(activities: Sequence[PendingActivity], now: datetime) -> list[str]:
    """Return where activities stand in the lines of queues: of each type the one that has waited longest."""
    waiting: dict[tuple[str, str, str | None], QueuePlace] = {}
    for activity in activities:
        place = activity.queue
        if place is not None and place.queued_at is not None:
            key = (activity.activity_type, place.name, place.partition_key)
            known = waiting.get(key)
            if known is None or known.queued_at is None or place.queued_at < known.queued_at:
                waiting[key] = place
    found = [f"  {type} in queue {_queue_words(place, now)}" for (type, *_), place in waiting.items()]
    return found[:MOST_SHOWN]


def _outside(workflow_id: str, activity: PendingActivity) -> str:
    """Return how somebody completes an activity that has no worker."""
    ids = ("--workflow-id", workflow_id, "--activity-id", str(activity.activity_id))
    command = shlex.join(["outlast", "activity", "complete", *ids])
    return f"  {activity.activity_type} waits for somebody outside: `{command} --result JSON` completes it"


def _status(activity: PendingActivity) -> str:
    parts = [activity.status.value]
    if activity.deferred:
        parts.append("deferred")
    if activity.transactional:
        parts.append("transactional")
    if activity.cancel_requested:
        parts.append("to cancel")
    return ", ".join(parts)


def _deadlines(activity: PendingActivity, now: datetime) -> Text:
    lines = [
        Text.assemble(f"{name} ", left(instant, now))
        for name, instant in (
            ("schedule-to-start", activity.schedule_to_start_deadline_at),
            ("start-to-close", activity.start_to_close_deadline_at),
            ("schedule-to-close", activity.schedule_to_close_deadline_at),
            ("heartbeat", activity.heartbeat_deadline_at),
        )
        if instant is not None
    ]
    return Text("\n").join(lines)


def _heartbeat(activity: PendingActivity, now: datetime) -> Text:
    if activity.last_heartbeat_at is None and not activity.heartbeat_details:
        return Text("")
    details = orjson.dumps(list(activity.heartbeat_details)).decode() if activity.heartbeat_details else ""
    return Text(f"{ago(activity.last_heartbeat_at, now)} {details}".strip())


def _timers(timers: Sequence[PendingTimer], now: datetime) -> FittedTable:
    labelled = [] if all(one.summary is None for one in timers) else ["SUMMARY"]
    made = table("ID", *labelled, "FIRES", title=_title("pending timer", len(timers)))
    for timer in timers[:MOST_SHOWN]:
        made.add_row(
            str(timer.timer_id), *[Text(label(timer.summary)) for _ in labelled], at(timer.fire_at, now)
        )
    return made


def _children(children: Sequence[PendingChild], now: datetime) -> FittedTable:
    labelled = [] if all(one.summary is None for one in children) else ["SUMMARY"]
    title = _title("open child workflow", len(children))
    made = table("WORKFLOW", "TYPE", *labelled, "STATUS", "STARTED", title=title)
    for child in children[:MOST_SHOWN]:
        made.add_row(
            child.workflow_id,
            child.workflow_type,
            *[Text(label(child.summary)) for _ in labelled],
            status(child.status),
            ago(child.created_at, now),
        )
    return made


def _updates(updates: Sequence[PendingUpdate], now: datetime) -> FittedTable:
    made = table("ID", "UPDATE", "STATUS", "REQUESTED", title=_title("open update", len(updates)))
    for update in updates[:MOST_SHOWN]:
        stage = "accepted" if update.accepted else "not yet accepted"
        made.add_row(update.update_id, update.name, stage, ago(update.asked_at, now))
    return made


def _signals(signals: Sequence[PendingSignal], *, receives: bool) -> FittedTable:
    made = table("SIGNAL", "NUMBER", "REASON", title="waiting signals")
    for signal in signals[:MOST_SHOWN]:
        why = "unread: no handler of this name" if signal.without_handler else "not yet handled"
        # Code that receives messages reads them in its own time; where it receives none, the name may be misspelt.
        style = "red" if signal.without_handler and not receives else ""
        made.add_row(signal.name, str(signal.count), Text(why, style=style))
    return made


def _streams(streams: Sequence[StreamView]) -> FittedTable:
    made = table("STREAM", "ITEMS", "BYTES", "", title="streams")
    for stream in streams[:MOST_SHOWN]:
        ended = f"closed {clock(stream.closed_at)}" if stream.closed_at is not None else ""
        made.add_row(stream.name, f"{stream.items:,}", f"{stream.bytes:,}", ended)
    return made


def _alerts(alerts: AlertsView, now: datetime) -> FittedTable:
    made = table("WHEN", "KIND", "MARK", "ACTIVITY", "STATE", title="alerts", drop=("ACTIVITY",))
    shown: list[tuple[Alert | ArmedAlert, str]] = [
        (alert, ago(alert.fired_at, now)) for alert in reversed(alerts.fired[: MOST_SHOWN // 2])
    ]
    shown += [(alert, at(alert.due_at, now)) for alert in alerts.armed[: MOST_SHOWN // 2]]
    for alert, when in shown:
        activity = "" if alert.activity_id is None else str(alert.activity_id)
        state = Text("armed")
        if isinstance(alert, Alert):
            told = delivery_words(alert)
            state = Text("fired" + (f" ({told})" if told else ""), style="yellow")
        made.add_row(when, alert.kind.value, alert.mark, activity, state)
    return made


def _handlers(listing: Any) -> RenderableType:
    """Return what a worker lists as handled; it may be of another version, so it is read with care."""
    made = table("HANDLER", "NAME", "PARAMETERS", "DESCRIPTION", drop=("DESCRIPTION",))
    for kind, plural in (("signal", "signals"), ("query", "queries"), ("update", "updates")):
        for entry in listing.get(plural, ()) if isinstance(listing, Mapping) else ():
            made.add_row(
                kind, entry.get("name") or "any name", _parameters(entry), label(entry.get("description"))
            )
    return made if made.row_count else Text("it handles no signals, queries or updates")


def _parameters(entry: Mapping[str, Any]) -> str:
    said: list[str] = []
    for one in entry.get("parameters") or ():
        typed = f"{one.get('name')}: {one['type']}" if one.get("type") else str(one.get("name"))
        said.append(
            typed if one.get("required", True) else f"{typed} = {orjson.dumps(one.get('default')).decode()}"
        )
    return ", ".join([*said, "…"] if entry.get("more") else said)


def _last_failure(activity: PendingActivity, failure: FailureCause) -> Iterator[RenderableType]:
    kind = f" ({failure.timeout_kind})" if failure.timeout_kind is not None else ""
    said = f"{failure.exception_class}{kind}: {failure.message}"
    yield Paragraph(f"activity {activity.activity_id} failed before: {said}")
    yield from _stack(failure.stack)


def _untold(found: WorkflowDescription) -> list[FailureView]:
    """Return the failures that are not told beside the open activity that is tried again because of them."""
    told = {
        (str(one.activity_id), one.last_failure.exception_class, one.last_failure.message)
        for one in found.pending_activities[:MOST_SHOWN]
        if one.last_failure is not None
    }
    return [one for one in found.failures if (one.source_id, one.exception_class, one.message) not in told]


def _alike(failures: Iterable[FailureView]) -> list[list[FailureView]]:
    """Return failures in groups that differ only in when they happened, the latest first."""
    groups: dict[tuple[Any, ...], list[FailureView]] = {}
    for one in failures:
        key = (one.source_kind, one.source_id, one.propagation_kind, one.exception_class, one.message)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _failure(alike: Sequence[FailureView], now: datetime) -> Iterator[RenderableType]:
    failure = alike[0]
    source = failure.source_kind.removeprefix("activity_").removeprefix("workflow_")
    of = f"activity {failure.source_id}" if source == "execution" else source
    kind = f" ({failure.timeout_kind})" if failure.timeout_kind is not None else ""
    times = f", × {len(alike)}, first {ago(alike[-1].recorded_at, now)}" if len(alike) > 1 else ""
    yield Paragraph(f"{ago(failure.recorded_at, now)}, {of}, {failure.failure_category}{times}")
    yield Paragraph(Text(f"{failure.exception_class}{kind}: {failure.message}", style="red"), 4)
    yield from _stack(failure.stack)
    cause = failure.cause
    while cause is not None:
        if cause.stack:
            yield Paragraph(f"because of {cause.exception_class}: {cause.message}", 4)
            yield from _stack(cause.stack)
        cause = cause.cause


def _stack(stack: str | None) -> Iterator[str]:
    """Return the lines of a stack. They are not wrapped: a path is to be copied, or clicked."""
    return (f"      {line}" for line in (stack or "").splitlines())


def _title(noun: str, number: int) -> str:
    return counted(number, noun) + (f", the first {MOST_SHOWN}" if number > MOST_SHOWN else "")


def _queue_words(place: QueuePlace, now: datetime) -> str:
    """Return the queue of a run or an activity and where it stands there, in words."""
    said = place.name if place.partition_key is None else f"{place.name}, partition {place.partition_key}"
    if place.queued_at is not None:
        before = "" if place.ahead is None else f", {capped(place.ahead, 1_000)} before it"
        why = "" if place.held_up_by is None else f"; {place.held_up_by}"
        return f"{said}: in line since {at(place.queued_at, now)}{before}{why}"
    if place.start_at is not None:
        return f"{said}: joins the line at {at(place.start_at, now)}"
    return f"{said}: admitted" if place.holds_slot else said
