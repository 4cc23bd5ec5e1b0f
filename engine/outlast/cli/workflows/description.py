"""``outlast describe`` and ``history``: one workflow in detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
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
from outlast.client.client import Client
from outlast.histories.history_pages import HistoryEvent
from outlast.text.wording import ago, at, clock, counted, label, pretty, words
from outlast.visibility.views import (
    FailureCause,
    FailureView,
    PendingActivity,
    PendingChild,
    PendingSignal,
    PendingTimer,
    PendingUpdate,
    WorkerView,
    WorkflowDescription,
)
from outlast_workflow.options.validation import integer

MOST_SHOWN = 20
SUMMARY_WIDTH = 100


def describe(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Show a workflow: status, deadlines, pending work, failures, attention."""

    async def work(client: Client) -> None:
        found = await client.describe(workflow_id, run_id)
        if json:
            document(found)
        else:
            _show_description(found)

    with_client(url, work, codec=codec)


def history(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", help="Only the events after this number.")
    ] = 0,
    full: Annotated[bool, typer.Option("--full", help="Print payloads in full.")] = False,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Print the events of a run, in order."""
    integer("after", after, 0)

    async def work(client: Client) -> None:
        made = table("SEQ", "RECORDED", "", "EVENT", "PAYLOAD", drop=("", "RECORDED"), clip="PAYLOAD")
        before: datetime | None = None
        shown = 0
        handle = client.handle(workflow_id, run_id=run_id)
        async for event in handle.history(after_seq=after):
            if json:
                document(_event_document(event))
                continue
            since = "" if before is None else f"+{words((event.recorded_at - before).total_seconds())}"
            before = event.recorded_at
            if full:
                show(f"{event.seq}  {clock(event.recorded_at)}  {since}  {event.type}".replace("    ", "  "))
                show(*(f"    {line}" for line in _shown(event, full=True).plain.splitlines()))
                shown += 1
            else:
                made.add_row(str(event.seq), clock(event.recorded_at), since, event.type, _shown(event))
        if not json and made.row_count:
            show(made)
        elif not json and not shown:
            length = (await client.describe(workflow_id, run_id)).run.history_length
            show(f"no events after {after}: the history of {workflow_id} has {length}")

    with_client(url, work)


def _event_document(event: HistoryEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "type": event.type,
        "recorded_at": event.recorded_at.isoformat(),
        "payload": event.payload,
    }


def _shown(event: HistoryEvent, *, full: bool = False) -> Text:
    """Return an event's payload, under its summary if it has one."""
    payload = pretty(event.payload) if full else _short(event.payload)
    summary = label(event.payload.get("summary"))
    return Text.assemble((f"{summary}\n", "bold"), payload) if summary else Text(payload)


def _short(payload: dict[str, Any]) -> str:
    text = orjson.dumps(payload).decode()
    return text if len(text) <= SUMMARY_WIDTH else f"{text[: SUMMARY_WIDTH - 1]}…"


# --- describe, for people -------------------------------------------------------------------------------------------


def _show_description(found: WorkflowDescription) -> None:
    now = found.described_at
    show(_summary(found, now))
    if found.pending_activities:
        show("", _activities(found.pending_activities, now))
        for activity in found.pending_activities[:MOST_SHOWN]:
            if activity.last_failure is not None:
                show(*_last_failure(activity, activity.last_failure))
    if found.pending_timers:
        show("", _timers(found.pending_timers, now))
    if found.pending_children:
        show("", _children(found.pending_children, now))
    if found.pending_updates:
        show("", _updates(found.pending_updates, now))
    if found.pending_signals:
        show("", _signals(found.pending_signals))
    if found.failures:
        show("", Text("latest failures", style="bold"))
        for failure in found.failures:
            show(*_failure(failure, now))


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
    if run.begins_at is not None:
        summary.add_row("next try" if run.task_failures else "starts", at(run.begins_at, now))
    if run.closed_at is not None:
        summary.add_row("closed", at(run.closed_at, now))
    for name, timeout, instant in (
        ("execution", found.execution_timeout_seconds, run.execution_deadline_at),
        ("run", run.run_timeout_seconds, run.run_deadline_at),
    ):
        limit = Text(f", {words(timeout)} in total") if timeout is not None else Text("")
        shown = deadline(instant, now) if run.closed_at is None or instant is None else Text(clock(instant))
        summary.add_row(f"{name} deadline", Text.assemble(shown, limit))
    summary.add_row("history", f"{run.history_length:,} events, {run.history_bytes:,} bytes")
    if run.owner is not None:
        summary.add_row("owner", _worker(run.owner))
    if run.cancel_requested_at is not None:
        summary.add_row("cancel requested", at(run.cancel_requested_at, now))
    if run.task_failures:
        why = f"{run.task_failures} in a row; `outlast history {found.workflow_id}` says why"
        summary.add_row("task failures", Text(why, style="red"))
    if run.build_id is not None:
        summary.add_row("build", run.build_id)
    if run.search_attributes:
        summary.add_row("search attributes", orjson.dumps(run.search_attributes).decode())
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


def _status(activity: PendingActivity) -> str:
    parts = [activity.status.value]
    if activity.deferred:
        parts.append("deferred")
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


def _signals(signals: Sequence[PendingSignal]) -> FittedTable:
    made = table("SIGNAL", "NUMBER", "REASON", title="waiting signals")
    for signal in signals[:MOST_SHOWN]:
        why = "the workflow has no handler of this name" if signal.without_handler else "not yet handled"
        made.add_row(signal.name, str(signal.count), Text(why, style="red" if signal.without_handler else ""))
    return made


def _last_failure(activity: PendingActivity, failure: FailureCause) -> Iterator[RenderableType]:
    kind = f" ({failure.timeout_kind})" if failure.timeout_kind is not None else ""
    said = f"{failure.exception_class}{kind}: {failure.message}"
    yield Paragraph(f"activity {activity.activity_id} failed before: {said}")
    yield from _stack(failure.stack)


def _failure(failure: FailureView, now: datetime) -> Iterator[RenderableType]:
    source = failure.source_kind.removeprefix("activity_").removeprefix("workflow_")
    of = f"activity {failure.source_id}" if source == "execution" else source
    kind = f" ({failure.timeout_kind})" if failure.timeout_kind is not None else ""
    yield Paragraph(f"{ago(failure.recorded_at, now)}, {of}, {failure.failure_category}")
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
