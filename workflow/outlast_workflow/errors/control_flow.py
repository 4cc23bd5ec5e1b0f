"""Control flow: exceptions that are not errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any


class ContinueAsNew(BaseException):
    """Raised by ``workflow.continue_as_new()`` to end the run by starting the next one. Do not catch it.

    It is a ``BaseException``, so that ``except Exception`` in workflow code does not catch it.

    Attributes:
        arguments: The next run's arguments.
        workflow_type: The next run's type, or None for the same.
        task_queue: The next run's task queue, or None for the same.
        run_timeout: The next run's timeout in seconds, or None for the same.
        memo: The next run's memo, or None for the same.
        search_attributes: The next run's search attributes, or None for the same.
        retry_policy: The next run's retry policy as a document, or None for the same.
        start_delay: How long the next run waits before it starts, in seconds, or None for not at all.
    """

    def __init__(
        self,
        arguments: tuple[Any, ...] = (),
        *,
        workflow_type: str | None = None,
        task_queue: str | None = None,
        run_timeout: float | None = None,
        memo: dict[str, Any] | None = None,
        search_attributes: Mapping[str, Any] | None = None,
        retry_policy: dict[str, Any] | None = None,
        start_delay: float | None = None,
    ) -> None:
        super().__init__("continue as new")
        self.arguments = arguments
        self.workflow_type = workflow_type
        self.task_queue = task_queue
        self.run_timeout = run_timeout
        self.memo = memo
        self.search_attributes = search_attributes
        self.retry_policy = retry_policy
        self.start_delay = start_delay


class CancelRun(asyncio.CancelledError):
    """Raised by a workflow of Outlast itself to end its run as cancelled, although nobody has requested that.

    Args:
        reason: Why the run is cancelled.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
