"""The current run, as its code sees it: its info and randomness, and continuing as new."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, NoReturn
from uuid import UUID

from outlast_workflow.api.context import current_machine, reading_machine
from outlast_workflow.errors import ContinueAsNew, InvalidOptionError, WorkflowTaskError
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
