"""The current run, as its code sees it: its info and randomness, and continuing as new."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, NoReturn
from uuid import UUID

from outlast_workflow.api.context import current_machine, reading_machine
from outlast_workflow.errors import ContinueAsNew, InvalidOptionError, WorkflowTaskError
from outlast_workflow.options.progress import progress_json
from outlast_workflow.options.search_attributes import SearchValue, checked_attributes
from outlast_workflow.options.validation import timeout_seconds, validate_task_queue
from outlast_workflow.run.info import WorkflowInfo


def info() -> WorkflowInfo:
    """Return the ids, timeouts, attributes and counters of the run."""
    return reading_machine().info()


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


def continue_as_new(
    *args: Any,
    task_queue: str | None = None,
    run_timeout: float | timedelta | None = None,
    memo: dict[str, Any] | None = None,
    search_attributes: Mapping[str, SearchValue | None] | None = None,
) -> NoReturn:
    """End the run by starting the next one of its chain, with a fresh history.

    Args:
        *args: The input of the next run.
        task_queue: Its queue; by default the same.
        run_timeout: Its run timeout; by default the same.
        memo: Its memo; by default the same.
        search_attributes: Its search attributes; by default the same.

    Raises:
        ContinueAsNew: Always. Do not catch it.
        DurableCallError: The arguments do not fit the workflow; fails the task, not the run.
    """
    machine = current_machine()
    timeout: float | None = None
    if not machine.replaying:
        try:
            machine.definition.signature.check(args)
            if task_queue is not None:
                validate_task_queue(task_queue)
            if run_timeout is not None:
                timeout = timeout_seconds("run timeout", run_timeout, minimum_seconds=1)
            if search_attributes is not None:
                search_attributes = checked_attributes(search_attributes)
        except (InvalidOptionError, WorkflowTaskError) as error:
            raise machine.log.refuse(error) from None
    raise ContinueAsNew(
        args,
        task_queue=task_queue,
        run_timeout=timeout,
        memo=memo,
        search_attributes=search_attributes,
    )
