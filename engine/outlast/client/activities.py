"""What a client does to activities that somebody outside its workers ends: the four verbs, each with one body.

A client's interceptors, if it has any, are called around that body.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from outlast.client.activity_ids import ActivityIds
from outlast.client.context import ClientContext
from outlast.client.intercepted_calls import (
    CancelActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
)
from outlast.client.workflows.run_rows import current_run_id
from outlast_activities.deferred_attempts import (
    CancelFromOutside,
    CompleteFromOutside,
    FailFromOutside,
    HeartbeatFromOutside,
    NamedAttempt,
)
from outlast_activities.task_token import read_token
from outlast_store.journal.batch import Change
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import (
    ActivityCancelRequestedError,
    ApplicationError,
    AttemptNotRunningError,
    InvalidOptionError,
)
from outlast_workflow.options.validation import integer, validate_name, validate_workflow_id

NamedActivity = str | ActivityIds
"""A task token, or ids."""


class Activities:
    """The activities that one client ends from outside.

    Args:
        context: The client's database, converter, limits and interceptors.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    async def complete(self, call: CompleteActivity) -> None:
        """See :meth:`outlast.Client.complete_activity`."""
        await self._intercepted("complete_activity", call, self._complete)

    async def fail(self, call: FailActivity) -> None:
        """See :meth:`outlast.Client.fail_activity`."""
        await self._intercepted("fail_activity", call, self._fail)

    async def cancel(self, call: CancelActivity) -> None:
        """See :meth:`outlast.Client.cancel_activity`."""
        await self._intercepted("cancel_activity", call, self._cancel)

    async def heartbeat(self, call: HeartbeatActivity) -> None:
        """See :meth:`outlast.Client.heartbeat_activity`."""
        await self._intercepted("heartbeat_activity", call, self._heartbeat)

    async def _intercepted(
        self, verb: str, call: Any, body: Callable[[Any], Coroutine[Any, Any, None]]
    ) -> None:
        interceptors = self._context.interceptors
        if interceptors:
            await interceptors.call(verb, call, body)
        else:
            await body(call)

    async def _complete(self, call: CompleteActivity) -> None:
        named = await self._named(call.activity)
        result = self._context.converter.encode(call.result, f"the result of activity {named.activity_id}")
        self._context.limits.check("payload_bytes", len(result.json), whose=_whose(named))
        await self._apply(CompleteFromOutside(named, result))

    async def _fail(self, call: FailActivity) -> None:
        error = ApplicationError(call.error) if isinstance(call.error, str) else call.error
        if not isinstance(error, Exception):
            raise InvalidOptionError(
                f"error must be an exception or a message, not {type(error).__name__}", field="error"
            )
        named = await self._named(call.activity)
        await self._apply(FailFromOutside(named, failure_of(error, self._context.converter)))

    async def _cancel(self, call: CancelActivity) -> None:
        await self._apply(CancelFromOutside(await self._named(call.activity)))

    async def _heartbeat(self, call: HeartbeatActivity) -> None:
        named = await self._named(call.activity)
        text: str | None = None
        if call.details:
            text = self._context.converter.encode_args(call.details, None, "heartbeat").json.decode()
            self._context.limits.check("payload_bytes", len(text), whose=_whose(named))
        if await self._apply(HeartbeatFromOutside(named, text)):
            raise ActivityCancelRequestedError(run_id=named.run_id, activity_id=named.activity_id)

    async def _named(self, activity: NamedActivity) -> NamedAttempt:
        """Return the attempt that is meant.

        Raises:
            InvalidOptionError: It is neither a token nor ids, or the ids cannot be some.
            WorkflowNotFoundError: There is no such workflow.
        """
        if not isinstance(activity, ActivityIds):
            return NamedAttempt(*read_token(activity))
        workflow_id, run_id = validate_workflow_id(activity.workflow_id), activity.run_id
        activity_id = integer("activity id", activity.activity_id, 1)
        if run_id is not None:
            validate_name("run id", run_id)
        else:
            run_id = await current_run_id(self._context.runtime, workflow_id)
        return NamedAttempt(run_id, activity_id, None, workflow_id)

    async def _apply(self, change: Change[AttemptNotRunningError | bool | None]) -> bool:
        outcome = await self._context.runtime.journal.apply(change)
        # It has enforced a deadline, so it could not raise this itself.
        if isinstance(outcome, AttemptNotRunningError):
            raise outcome
        return bool(outcome)


def _whose(named: NamedAttempt) -> str:
    return named.workflow_id or f"run {named.run_id}"
