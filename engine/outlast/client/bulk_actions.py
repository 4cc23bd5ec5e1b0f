"""The actions of bulk operations by their names, as the command line, HTTP and the pages offer them: an entry each.

Another action is an entry of :data:`ACTIONS`, with what it needs in :class:`ActionDetails`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from outlast.client.bulk import Bulk, BulkOutcome
from outlast.visibility.filters import Filters
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import Seconds
from outlast_workflow.primitives.enums import NOT_BEGUN_STATUSES, RESUMABLE_STATUSES


class BulkAction(StrEnum):
    """The actions."""

    CANCEL = "cancel"
    TERMINATE = "terminate"
    SIGNAL = "signal"
    RESET = "reset"
    RESUME = "resume"
    FORK = "fork"
    DELETE = "delete"
    SET_START_DELAY = "set-start-delay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDetails:
    """What actions need beside the workflows: each takes its own, as :class:`~outlast.client.bulk.Bulk` says."""

    reason: str | None = None
    name: str | None = None
    args: Sequence[Any] = ()
    request_id: str | None = None
    to: str | int = "last-workflow-task"
    before: int | None = None
    execution_timeout: Seconds | None = None
    delay: Seconds | None = None
    until: datetime | None = None
    terminate: bool = False
    children: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """An action: how it is carried out, and the filters of the workflows that it suits."""

    begin: Callable[[Bulk, ActionDetails], AsyncIterator[BulkOutcome]]
    suits: Filters = field(default_factory=Filters)


def _signal(found: Bulk, given: ActionDetails) -> AsyncIterator[BulkOutcome]:
    if given.name is None:
        raise InvalidOptionError("a signal needs its name", field="name")
    return found.signal(given.name, *given.args, request_id=given.request_id)


ACTIONS: Final[dict[BulkAction, _Entry]] = {
    BulkAction.CANCEL: _Entry(lambda found, given: found.cancel(given.reason), Filters(open=True)),
    BulkAction.TERMINATE: _Entry(lambda found, given: found.terminate(given.reason), Filters(open=True)),
    BulkAction.SIGNAL: _Entry(_signal, Filters(open=True)),
    BulkAction.RESET: _Entry(
        lambda found, given: found.reset(
            given.to, reason=given.reason, execution_timeout=given.execution_timeout
        )
    ),
    BulkAction.RESUME: _Entry(
        lambda found, given: found.resume(reason=given.reason, execution_timeout=given.execution_timeout),
        Filters(status=sorted(RESUMABLE_STATUSES)),
    ),
    BulkAction.FORK: _Entry(
        lambda found, given: found.fork(
            given.to, before=given.before, reason=given.reason, execution_timeout=given.execution_timeout
        )
    ),
    BulkAction.DELETE: _Entry(
        lambda found, given: found.delete(
            terminate=given.terminate, children=given.children, reason=given.reason
        ),
        Filters(open=False),
    ),
    BulkAction.SET_START_DELAY: _Entry(
        lambda found, given: found.set_start_delay(given.delay, until=given.until),
        Filters(status=sorted(NOT_BEGUN_STATUSES)),
    ),
}


def begin(found: Bulk, action: BulkAction, given: ActionDetails) -> AsyncIterator[BulkOutcome]:
    """Return the outcomes of an action, which is carried out while they are read.

    Args:
        found: The workflows.
        action: The action.
        given: Its details.

    Raises:
        InvalidOptionError: A detail is missing or cannot be used.
    """
    return ACTIONS[action].begin(found, given)


def suited(action: BulkAction, *, terminate: bool = False) -> Filters:
    """Return the filters of the workflows that an action suits; empty where that is any.

    Args:
        action: The action.
        terminate: Whether what is to be deleted is terminated first.
    """
    if terminate and action is BulkAction.DELETE:
        return Filters()
    return ACTIONS[action].suits
