"""Control flow, which stands apart from errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ContinueAsNew(BaseException):
    """Raised by ``workflow.continue_as_new()``: ends the run by starting the next one. Don't catch it.

    A ``BaseException``, so that ``except Exception`` in workflow code lets it pass.

    Attributes:
        arguments: what the next run is given.
        workflow_type: the next run's type, or None for the same.
        task_queue: the next run's queue, or None for the same.
        run_timeout: seconds, or None for the same.
        memo: or None for the same.
        search_attributes: or None for the same.
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
    ) -> None:
        super().__init__("continue as new")
        self.arguments = arguments
        self.workflow_type = workflow_type
        self.task_queue = task_queue
        self.run_timeout = run_timeout
        self.memo = memo
        self.search_attributes = search_attributes
