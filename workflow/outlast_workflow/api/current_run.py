"""The current run, as its code sees it: its info and randomness, and continuing as new."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, Final, Never, NoReturn, TypeVar, overload
from uuid import UUID

from outlast_workflow.api.context import current_machine, reading_machine
from outlast_workflow.errors import ContinueAsNew, InvalidOptionError, WorkflowTaskError
from outlast_workflow.history.events import WorkflowDeadlineLowered
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.progress import progress_json
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.search_attributes import SearchValue, checked_attributes
from outlast_workflow.options.start import checked_policy
from outlast_workflow.options.validation import (
    check_end,
    duration_seconds,
    timeout_seconds,
    validate_task_queue,
)
from outlast_workflow.primitives.times import from_iso, iso, later, microseconds
from outlast_workflow.run.info import WorkflowInfo
from outlast_workflow.run.machine import WorkflowMachine

T = TypeVar("T")


def info() -> WorkflowInfo:
    """Return the ids, timeouts, attributes and counters of the run."""
    return reading_machine().info()


@overload
def last_result(result_type: type[T]) -> T | None: ...


@overload
def last_result(result_type: Any = None) -> Any: ...


def last_result(result_type: Any = None) -> Any:
    """Return the latest result of a run before this one, read as a type; ``None`` if there is none.

    Results come from earlier runs of a schedule, and pass on to the runs that follow by retry or continue-as-new.

    Args:
        result_type: How to read the result; ``info().last_result`` is the plain JSON.

    Raises:
        PayloadDecodeError: It cannot be read as that type; fails the task, not the run.
    """
    machine = reading_machine()
    payload = machine.started.last_result
    return None if payload is None else machine.converter.decode(payload, result_type, "the last result")


def uuid4() -> UUID:
    """Return a random UUID, the same on every replay."""
    return UUID(int=current_machine().random().getrandbits(128), version=4)


def random() -> Random:
    """Return the run's random number generator, which yields the same numbers on every replay."""
    return current_machine().random()


def set_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Say how far the run is. ``describe``, listings and the dashboard show what was said last.

    It is no event: the run's row gets the last value of each workflow task, and replay sets the same again. The next
    run of the chain begins without one.

    Args:
        done: How much is done; it may exceed ``total``.
        total: How much there is to do, if that is known.
        message: What the run is doing, in at most 200 characters of plain text, shown to everybody and not encoded by
            codecs.

    Raises:
        InvalidOptionError: A number is not finite or negative, or the message is too long; fails the task, not the run.
    """
    machine = reading_machine()
    if machine.log.read_only is not None:
        machine.log.read_only.refuse("set the progress")
    try:
        machine.progress = progress_json(done, total, message)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None


def limit(timeout: float | timedelta) -> None:
    """Bring the run's deadline nearer: the run may take so long, whatever it was started with.

    The time counts from the run's first workflow task; after a reset, from the first one since. The deadline never
    moves away: a limit that is no shorter than an earlier one, or than the run timeout, changes nothing and is not
    recorded. The next run of the chain does not have it, unless its code asks for it again.

    Args:
        timeout: Seconds, or a timedelta; at least 1 second. If it is over already, the run ends as timed out.

    Raises:
        InvalidOptionError: It is no such duration, or ends after the year 9999; fails the task, not the run.
    """
    machine = current_machine()
    assert machine.begins_at is not None
    try:
        seconds = timeout_seconds("limit", timeout, minimum_seconds=1)
        duration = microseconds(seconds)
        if not machine.replaying:
            check_end("limit", machine.begins_at, duration)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None
    # Decided by durations, which a reset does not change, and not by instants, which it does.
    started = machine.started
    if machine.limit is not None and duration >= machine.limit:
        return
    if started.run_timeout_seconds is not None and duration >= microseconds(started.run_timeout_seconds):
        return
    machine.limit = duration
    deadline = iso(later(machine.begins_at, duration))
    # Where the first workflow task came late, the deadline of the run timeout may be the nearer one.
    if started.run_deadline_at is not None and from_iso(started.run_deadline_at) < from_iso(deadline):
        deadline = started.run_deadline_at
    machine.set_run_deadline(deadline)
    machine.log.add(WorkflowDeadlineLowered(deadline, seconds))


_CONTINUE_OPTIONS: Final = (
    "task_queue",
    "run_timeout",
    "memo",
    "search_attributes",
    "retry_policy",
    "start_delay",
)


def continue_as_new(
    *args: Any,
    task_queue: str | None = None,
    run_timeout: float | timedelta | None = None,
    memo: dict[str, Any] | None = None,
    search_attributes: Mapping[str, SearchValue | None] | None = None,
    retry_policy: RetryPolicy | None = None,
    start_delay: float | timedelta | None = None,
    **unknown: Never,
) -> NoReturn:
    """End the run by starting the next one of its chain, with a fresh history.

    Args:
        *args: The input of the next run.
        task_queue: Its queue; by default the same.
        run_timeout: Its run timeout; by default the same.
        memo: Its memo; by default the same.
        search_attributes: Its search attributes; by default the same.
        retry_policy: Its retry policy; by default the same.
        start_delay: How long it waits before it starts, in seconds or a timedelta; by default not at all. A signal, an
            update or a cancel request ends the wait. The run timeout counts from the end of the wait.
        **unknown: Options that there are not: the error says what is meant.

    Raises:
        ContinueAsNew: Always. Do not catch it.
        DurableCallError: The arguments do not fit the workflow; fails the task, not the run.
        InvalidOptionError: An option cannot be used, or the start delay would end at or after the execution deadline;
            fails the task, not the run.
    """
    machine = current_machine()
    timeout: float | None = None
    delay: float | None = None
    policy: dict[str, Any] | None = None
    if not machine.replaying:
        try:
            if unknown:
                refuse_unknown("continue_as_new", unknown, _CONTINUE_OPTIONS)
            machine.definition.signature.check(args)
            if task_queue is not None:
                validate_task_queue(task_queue)
            if run_timeout is not None:
                timeout = timeout_seconds("run timeout", run_timeout, minimum_seconds=1)
            if search_attributes is not None:
                search_attributes = checked_attributes(search_attributes)
            if retry_policy is not None:
                policy = checked_policy(retry_policy).to_document()
            if start_delay is not None:
                delay = _start_delay(start_delay, machine)
            begins = machine.time + microseconds(delay or 0)
            check_end("start delay", machine.time, begins - machine.time)
            check_end("run timeout", begins, None if timeout is None else microseconds(timeout))
        except (InvalidOptionError, WorkflowTaskError) as error:
            raise machine.log.refuse(error) from None
    raise ContinueAsNew(
        args,
        task_queue=task_queue,
        run_timeout=timeout,
        memo=memo,
        search_attributes=search_attributes,
        retry_policy=policy,
        start_delay=delay,
    )


def _start_delay(start_delay: float | timedelta, machine: WorkflowMachine) -> float:
    delay = duration_seconds("start delay", start_delay)
    deadline = machine.started.execution_deadline_at
    if deadline is not None and machine.time + microseconds(delay) >= from_iso(deadline):
        raise InvalidOptionError(
            f"start delay ({delay:g} s) must end before the execution deadline ({deadline}), which holds for the whole "
            "chain: give a shorter one",
            field="start_delay",
        )
    return delay
