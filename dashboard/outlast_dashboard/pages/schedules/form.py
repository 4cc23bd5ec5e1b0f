"""The form of a schedule: creating one, changing one, and a look at when it would fire."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast import CatchUp, Overlap, RetryPolicy, StartOptions
from outlast.client.schedules.views import ScheduleDescription
from outlast.errors import OutlastError
from outlast.text.parsing import duration, moment
from outlast_dashboard.api.contract.fields import ScheduleId
from outlast_dashboard.authorization import TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import arguments, field_of, whole
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.schedules.calendar_text import duration_text, lines_of, specs_of
from outlast_dashboard.pages.start_options import FOLDED, options_typed
from outlast_dashboard.problems import problem_of
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web

router = APIRouter()

MOST_PREVIEWED: Final = 10
Text = Annotated[str, Form()]

_FOLDED: Final = (
    *FOLDED,
    *("exclude", "start_at", "end_at", "jitter", "catch_up_window", "max_runs"),
)


def _typed(
    id: Text = "",
    workflow_type: Text = "",
    args: Text = "",
    task_queue: Text = "default",
    when: Text = "",
    time_zone: Text = "UTC",
    exclude: Text = "",
    start_at: Text = "",
    end_at: Text = "",
    jitter: Text = "",
    overlap: Text = Overlap.SKIP.value,
    catch_up: Text = CatchUp.LATEST.value,
    catch_up_window: Text = "",
    pause_on_failure: Text = "",
    max_runs: Text = "",
    note: Text = "",
    execution_timeout: Text = "",
    run_timeout: Text = "",
    start_delay: Text = "",
    schedule_to_start_timeout: Text = "",
    priority: Text = "",
    queue: Text = "",
    partition_key: Text = "",
    max_attempts: Text = "",
    search_attributes: Text = "",
    memo: Text = "",
    summary: Text = "",
    alerts: Text = "",
) -> dict[str, str]:
    return dict(locals())


_DEFAULTS: Final = {
    "task_queue": "default",
    "time_zone": "UTC",
    "overlap": Overlap.SKIP.value,
    "catch_up": CatchUp.LATEST.value,
    "catch_up_window": "365d",
}
_ELSEWHERE: Final = {"spec": "when", "schedule_id": "id"}
"""The fields of errors that the form has under other names."""
_FIELDS: Final = tuple(inspect.signature(_typed).parameters)
Typed = Annotated[dict[str, str], Depends(_typed)]
Preview = Annotated[str, Form()]


@router.get("/new-schedule")
async def ask(request: Request, web: TheWeb, principal: Writer) -> Response:
    """Show the form of a new schedule."""
    return await _form(request, web, principal, {**dict.fromkeys(_FIELDS, ""), **_DEFAULTS})


@router.post("/new-schedule")
async def create(
    request: Request, web: TheWeb, principal: Writer, typed: Typed, preview: Preview = ""
) -> Response:
    """Create a schedule and show it, or only show when it would fire."""
    try:
        fields = _fields(typed, web.now())
        if preview:
            return await _form(request, web, principal, typed, slots=await _slots(web, fields))
        handle = await web.client.schedules.create(
            typed["id"],
            typed["workflow_type"],
            *arguments(typed["args"]),
            options=StartOptions(**options_typed(typed)),
            **fields,
        )
    except OutlastError as error:
        return await _refused(request, web, principal, typed, error)
    return RedirectResponse(f"{base_of(request)}/schedules/{quoted(handle.schedule_id)}", 303)


@router.get("/schedules/{schedule_id}/edit")
async def ask_again(request: Request, web: TheWeb, principal: Writer, schedule_id: ScheduleId) -> Response:
    """Show the form of a schedule that is there."""
    found = await web.client.schedules.handle(schedule_id).describe(next=0)
    return await _form(request, web, principal, _typed_of(found), edited=schedule_id)


@router.post("/schedules/{schedule_id}/edit")
async def change(
    request: Request,
    web: TheWeb,
    principal: Writer,
    schedule_id: ScheduleId,
    typed: Typed,
    preview: Preview = "",
) -> Response:
    """Change a schedule and show it, or only show when it would fire."""
    handle = web.client.schedules.handle(schedule_id)
    try:
        fields = _fields(typed, web.now())
        if preview:
            slots = await _slots(web, fields)
            return await _form(request, web, principal, typed, edited=schedule_id, slots=slots)
        options: Any = options_typed(typed)
        if options["memo"] is None:
            # Neither the memo nor the arguments are shown: what is empty stays.
            del options["memo"]
        before = (await handle.describe(next=0)).options.retry_policy
        options["retry_policy"] = _policy(before, whole("max_attempts", typed["max_attempts"]))
        update: Any = {**fields, "workflow": typed["workflow_type"], "options": options}
        if typed["args"].strip():
            update["args"] = arguments(typed["args"])
        await handle.update(**update)
    except OutlastError as error:
        return await _refused(request, web, principal, typed, error, edited=schedule_id)
    return RedirectResponse(f"{base_of(request)}/schedules/{quoted(schedule_id)}", 303)


def _fields(typed: dict[str, str], now: datetime) -> Any:
    """Return the fields of a schedule that were typed, without what it starts and its options."""
    zone = typed["time_zone"].strip() or "UTC"
    return {
        "spec": specs_of("when", typed["when"], zone),
        "exclude": specs_of("exclude", typed["exclude"], zone),
        "start_at": moment("start at", typed["start_at"].strip() or None, now, ahead=True),
        "end_at": moment("end at", typed["end_at"].strip() or None, now, ahead=True),
        "jitter": duration("jitter", typed["jitter"].strip() or "0"),
        "overlap": typed["overlap"],
        "catch_up": typed["catch_up"],
        "catch_up_window": duration("catch up window", typed["catch_up_window"].strip() or "365d"),
        "pause_on_failure": bool(typed["pause_on_failure"]),
        "max_runs": whole("max_runs", typed["max_runs"]),
        "note": typed["note"].strip() or None,
        "task_queue": typed["task_queue"],
    }


def _typed_of(found: ScheduleDescription) -> dict[str, str]:
    """Return a schedule as its form shows it; the arguments and the memo are not shown."""
    options, zone = found.options, found.time_zone
    texts: dict[str, str | int | None] = {
        "id": found.schedule_id,
        "workflow_type": found.workflow_type,
        "task_queue": found.task_queue,
        "when": lines_of(found.specs, zone),
        "time_zone": zone,
        "exclude": lines_of(found.exclude, zone),
        "start_at": None if found.start_at is None else found.start_at.isoformat(),
        "end_at": None if found.end_at is None else found.end_at.isoformat(),
        "jitter": duration_text(found.jitter) if found.jitter else None,
        "overlap": found.overlap.value,
        "catch_up": found.catch_up.value,
        "catch_up_window": duration_text(found.catch_up_window),
        "pause_on_failure": "yes" if found.pause_on_failure else None,
        "max_runs": found.max_runs,
        "note": found.note,
        "priority": options.priority if options.priority != 5 else None,
        "queue": options.queue,
        "partition_key": options.partition_key,
        "max_attempts": None if options.retry_policy is None else options.retry_policy["max_attempts"],
        "search_attributes": None
        if not options.search_attributes
        else orjson.dumps(options.search_attributes).decode(),
        "summary": options.summary,
        "alerts": None if options.alerts is None else orjson.dumps(options.alerts).decode(),
    }
    for name in ("execution_timeout", "run_timeout", "start_delay", "schedule_to_start_timeout"):
        seconds = getattr(options, name)
        texts[name] = None if seconds is None else duration_text(seconds)
    return {name: str(texts[name]) if texts.get(name) is not None else "" for name in _FIELDS}


def _policy(before: dict[str, Any] | None, attempts: int | None) -> RetryPolicy | None:
    """Return the retry policy with so many attempts; what the form does not show of it stays."""
    if attempts is None:
        return None
    policy = RetryPolicy() if before is None else RetryPolicy.from_document(before)
    return policy.replace(max_attempts=attempts)


async def _slots(web: Web, fields: Any) -> Sequence[datetime]:
    calendar = {name: fields[name] for name in ("exclude", "start_at", "end_at", "jitter")}
    return await web.client.schedules.preview(fields["spec"], next=MOST_PREVIEWED, **calendar)


async def _refused(
    request: Request,
    web: Web,
    principal: Principal,
    typed: dict[str, str],
    error: OutlastError,
    edited: str | None = None,
) -> Response:
    if problem_of(error).status >= 500:
        raise error
    return await _form(request, web, principal, typed, edited=edited, error=error)


async def _form(
    request: Request,
    web: Web,
    principal: Principal,
    typed: dict[str, str],
    *,
    edited: str | None = None,
    error: OutlastError | None = None,
    slots: Sequence[datetime] | None = None,
) -> Response:
    problem = problem_of(error) if error is not None else None
    field = field_of(error, {**typed, **_ELSEWHERE}) if error is not None else None
    field = _ELSEWHERE.get(field or "", field)
    values: dict[str, Any] = {
        "typed": typed,
        **await known_names(web),
        "overlaps": [*Overlap],
        "catch_ups": [*CatchUp],
        "edited": edited,
        "slots": slots,
        "now": web.now(),
        "wrong": {field: problem.detail} if problem is not None and field is not None else {},
        "other": problem.detail if problem is not None and field is None else "",
        "more": any(typed[name] and typed[name] != _DEFAULTS.get(name) for name in _FOLDED),
    }
    status = problem.status if problem is not None else 200
    return page("schedule_form.html", request, principal, status, **values)
