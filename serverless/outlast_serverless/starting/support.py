"""What this runtime cannot run: told of a document before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Collection

from outlast_serverless.calls.extras import lacking
from outlast_serverless.documents.document import Document
from outlast_serverless.plan.kinds import PROTOCOLS
from outlast_serverless.plan.model import CallTask, Expression, Plan, RunTask, Task
from outlast_serverless.plan.templates import wrapped
from outlast_serverless.plan.walking import tasks_of
from outlast_workflow.errors import UnsupportedTaskError


def check_support(
    document: Document, activities: Collection[str], speaks: Callable[[str], str] = lambda protocol: ""
) -> None:
    """Refuse a document with tasks that cannot run here.

    Args:
        document: The document.
        activities: The names of the activities of this runtime.
        speaks: Returns why a protocol of channels cannot be spoken here, and what to do; empty if it can.

    Raises:
        UnsupportedTaskError: It has some; nothing was written.
    """
    found = unsupported(document.plan, activities, speaks)
    if found:
        head = f"{document.namespace}/{document.name}:{document.version}"
        raise UnsupportedTaskError(head, found)


def unsupported(
    plan: Plan, activities: Collection[str], speaks: Callable[[str], str] = lambda protocol: ""
) -> list[tuple[str, str]]:
    """Return the tasks that cannot run here, by their pointers, and why.

    Args:
        plan: The plan.
        activities: The names of the activities of this runtime.
        speaks: As for :func:`check_support`.
    """
    found = ((task.pointer, _why(task, activities) or _protocol(task, speaks)) for task in tasks_of(plan))
    return [(pointer, why) for pointer, why in found if why]


def _why(task: Task, activities: Collection[str]) -> str:
    if isinstance(task, CallTask) and task.function is None:
        if f"serverless.{task.call}" in activities:
            return lacking(task.call)
        if wrapped(task.call) is not None:
            return "which function is called must be written out: no expression can say it"
        if task.call not in PROTOCOLS:
            return ""
        return f"`call: {task.call}` cannot run here yet"
    if isinstance(task, RunTask) and task.process != "workflow":
        return (
            "" if f"serverless.{task.process}" in activities else f"`run: {task.process}` cannot run here yet"
        )
    return ""


def _protocol(task: Task, speaks: Callable[[str], str]) -> str:
    """Return why the protocol that a task names cannot be spoken; one that only its description names shows later."""
    if not isinstance(task, CallTask) or task.call != "asyncapi" or isinstance(task.arguments, Expression):
        return ""
    named = task.arguments.value.get("protocol")
    # A server that is named counts more.
    return speaks(named) if isinstance(named, str) and "server" not in task.arguments.value else ""
