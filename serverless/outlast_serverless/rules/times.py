"""Rules on durations, schedules, timeouts and retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlast_schedules.specs.cron_text import read_cron
from outlast_serverless.plan.durations import LONGEST_US, CalendarUnitError, microseconds
from outlast_serverless.plan.pointers import child
from outlast_serverless.plan.templates import wrapped
from outlast_serverless.rules.finding import Finding
from outlast_serverless.rules.subject import Subject, mapping
from outlast_workflow.errors import InvalidOptionError

TRIGGERS = ("every", "cron", "after", "on")


def check_times(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with instants and lengths of time."""
    definition = subject.definition
    yield from _timeout(definition.get("timeout"), "/timeout")
    for name, timeout in subject.component("timeouts").items():
        yield from _timeout(timeout, child("/use/timeouts", name))
    for name, policy in subject.component("retries").items():
        yield from _retry(policy, child("/use/retries", name))
    if "schedule" in definition:
        yield from _schedule(mapping(definition, "schedule"))
    yield from _lookback(mapping(definition, "document"), "/document")
    for task in subject.tasks:
        yield from _lookback(task.value, task.pointer)
        yield from _timeout(task.value.get("timeout"), f"{task.pointer}/timeout")
        if task.kind == "wait":
            yield from _duration(task.value["wait"], f"{task.pointer}/wait")
        elif task.kind == "try":
            yield from _retry(mapping(task.value, "catch").get("retry"), f"{task.pointer}/catch/retry")
        elif task.kind == "run":
            lifetime = mapping(mapping(mapping(task.value, "run"), "container"), "lifetime")
            yield from _duration(lifetime.get("after"), f"{task.pointer}/run/container/lifetime/after")
        elif task.protocol == "asyncapi":
            consume = mapping(mapping(mapping(task.value, "with"), "subscription"), "consume")
            yield from _duration(consume.get("for"), f"{task.pointer}/with/subscription/consume/for")
            amount = consume.get("amount")
            if isinstance(amount, int) and not isinstance(amount, bool) and amount < 1:
                yield Finding(
                    "amount_not_positive",
                    f"{task.pointer}/with/subscription/consume/amount",
                    "it consumes no message",
                    "let it be 1 or more",
                )
        elif task.protocol == "mcp":
            yield from _duration(mapping(task.value, "with").get("timeout"), f"{task.pointer}/with/timeout")


def _lookback(holder: dict[str, Any], pointer: str) -> Iterator[Finding]:
    said = mapping(mapping(holder, "metadata"), "outlast")
    if "lookback" not in said:
        return
    place = f"{pointer}/metadata/outlast/lookback"
    try:
        length = microseconds(said["lookback"])
    except CalendarUnitError:
        length = None
    if length is None:
        yield Finding("lookback", place, "it is no duration", "write it as PT5M, or as {minutes: 5}")
    else:
        yield from _duration(said["lookback"], place, zero=True)


def _timeout(timeout: Any, pointer: str) -> Iterator[Finding]:
    if isinstance(timeout, dict):
        yield from _duration(timeout.get("after"), f"{pointer}/after")


def _length(duration: Any) -> int | None:
    try:
        return microseconds(duration)
    except CalendarUnitError:
        return None


def _duration(duration: Any, pointer: str, *, zero: bool = False) -> Iterator[Finding]:
    if duration is None or (isinstance(duration, str) and wrapped(duration) is not None):
        return
    try:
        length = microseconds(duration)
    except CalendarUnitError:
        yield Finding(
            "calendar_duration",
            pointer,
            "years and months have no fixed length",
            "write it in weeks, days or hours",
        )
        return
    if length is None:
        return
    if length < 0 or (length == 0 and not zero):
        yield Finding("duration_not_positive", pointer, "it is no time at all", "let it be longer than zero")
    elif length > LONGEST_US:
        yield Finding(
            "duration_too_long",
            pointer,
            "it is longer than a hundred years",
            "shorten it, or leave it out if there is no limit",
        )


def _schedule(schedule: dict[str, Any]) -> Iterator[Finding]:
    triggers = [name for name in TRIGGERS if name in schedule]
    if not triggers:
        yield Finding(
            "schedule_without_trigger",
            "/schedule",
            "it says not when",
            "give it one of every, cron, after and on",
        )
    for name in triggers[1:]:
        yield Finding(
            "several_triggers",
            f"/schedule/{name}",
            f"it has {triggers[0]} already",
            "keep one trigger; make a workflow of its own for another",
            key=True,
        )
    yield from _duration(schedule.get("every"), "/schedule/every")
    yield from _duration(schedule.get("after"), "/schedule/after", zero=True)
    for name in ("every", "after"):
        if isinstance(schedule.get(name), str) and wrapped(schedule[name]) is not None:
            yield Finding(
                "schedule_expression",
                f"/schedule/{name}",
                "there is no input that an expression could look at",
                "write the duration itself",
            )
    if isinstance(schedule.get("cron"), str):
        try:
            read_cron(schedule["cron"])
        except InvalidOptionError as error:
            yield Finding(
                "invalid_cron",
                "/schedule/cron",
                error.message,
                "write five fields: minute, hour, day, month, weekday",
            )


def _retry(policy: Any, pointer: str) -> Iterator[Finding]:
    if not isinstance(policy, dict):
        return
    limit = mapping(policy, "limit")
    attempt = mapping(limit, "attempt")
    yield from _duration(policy.get("delay"), f"{pointer}/delay", zero=True)
    yield from _duration(limit.get("duration"), f"{pointer}/limit/duration")
    yield from _duration(attempt.get("duration"), f"{pointer}/limit/attempt/duration")
    count = attempt.get("count")
    if isinstance(count, int) and not isinstance(count, bool) and count < 1:
        yield Finding(
            "retry_count",
            f"{pointer}/limit/attempt/count",
            "it allows no retry",
            "let it be 1 or more, or leave `retry` out",
        )
    if (
        "count" not in attempt
        and "duration" not in limit
        and "when" not in policy
        and "exceptWhen" not in policy
    ):
        yield Finding(
            "endless_retry",
            pointer,
            "nothing ends these retries",
            "give it limit.attempt.count or limit.duration",
            key=True,
        )
    if "backoff" in policy and "delay" not in policy:
        yield Finding(
            "backoff_without_delay",
            f"{pointer}/backoff",
            "there is no delay that could grow",
            "give it a `delay`",
            key=True,
        )
    one, whole = _length(attempt.get("duration")), _length(limit.get("duration"))
    if one is not None and whole is not None and one > whole > 0:
        yield Finding(
            "attempt_outlasts_limit",
            f"{pointer}/limit/attempt/duration",
            "an attempt may take longer than all together",
            "shorten it, or lengthen limit.duration",
        )
    jitter = mapping(policy, "jitter")
    for name in ("from", "to"):
        yield from _duration(jitter.get(name), f"{pointer}/jitter/{name}", zero=True)
    least, most = _length(jitter.get("from")), _length(jitter.get("to"))
    if least is not None and most is not None and least > most:
        yield Finding(
            "jitter_range",
            f"{pointer}/jitter/from",
            "the jitter begins after its end",
            "let `from` be at most `to`",
        )
