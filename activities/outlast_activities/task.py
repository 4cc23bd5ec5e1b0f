"""One attempt of an activity, as it is handed to the runner."""

from __future__ import annotations

from typing import Any

from outlast_store.schema.rows import ActivityRow
from outlast_workflow.primitives.payloads import Payload

AttemptKey = tuple[str, int, int]
"""Run id, activity id, attempt: what names one attempt in this process."""


class ActivityTask:
    """An attempt that this worker has claimed.

    Attributes:
        row: The activity as it was when the attempt began; never changed.
        input: The arguments.
        workflow_id: The workflow that called it.
        workflow_type: That workflow's type.
        owner_fence: The fence of the run, if this worker owned it when the attempt began; set by the worker.
        headers: The headers of the call, for interceptors.
        first_run_id: The first run of the chain, to which its streams belong.
        key: What names this attempt in this process.
    """

    __slots__ = (
        "first_run_id",
        "headers",
        "input",
        "key",
        "owner_fence",
        "row",
        "workflow_id",
        "workflow_type",
    )

    def __init__(
        self,
        row: ActivityRow,
        input: Payload,
        workflow_id: str,
        workflow_type: str,
        owner_fence: int | None = None,
        headers: dict[str, Any] | None = None,
        first_run_id: str = "",
    ) -> None:
        self.row = row
        self.key: AttemptKey = (row.run_id, row.activity_id, row.attempt)
        self.input = input
        self.workflow_id = workflow_id
        self.workflow_type = workflow_type
        self.owner_fence = owner_fence
        self.headers = headers
        self.first_run_id = first_run_id

    @property
    def run_id(self) -> str:
        """The run that called it."""
        return self.row.run_id

    @property
    def activity_id(self) -> int:
        """Its command id in that run."""
        return self.row.activity_id

    @property
    def attempt(self) -> int:
        """The attempt's number, rescues and releases included: the claim's token."""
        return self.row.attempt

    def __repr__(self) -> str:
        row = self.row
        return f"<ActivityTask {row.activity_type}#{row.activity_id} of {self.workflow_id}, attempt {row.attempt}>"
