"""What this runtime cannot run: told of a document before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from outlast_serverless.documents.document import Document
from outlast_serverless.plan.model import CallTask, DataFlow, RunTask, Task
from outlast_serverless.plan.walking import data_flows, tasks_of
from outlast_workflow.errors import UnsupportedTaskError


def check_support(document: Document, activities: Collection[str]) -> None:
    """Refuse a document with tasks that cannot run here.

    Args:
        document: The document.
        activities: The names of the activities of this runtime.

    Raises:
        UnsupportedTaskError: It has some; nothing was written.
    """
    found = [*_tasks(document, activities), *_schemas(document)]
    if found:
        head = f"{document.namespace}/{document.name}:{document.version}"
        raise UnsupportedTaskError(head, found)


def _tasks(document: Document, activities: Collection[str]) -> Iterator[tuple[str, str]]:
    for task in tasks_of(document.plan):
        why = _why(task, activities)
        if why:
            yield task.pointer, why


def _why(task: Task, activities: Collection[str]) -> str:
    if isinstance(task, CallTask) and task.function is None:
        if f"serverless.{task.call}" in activities:
            return ""
        if "@" in task.call or "://" in task.call:
            return (
                "functions from a catalog or an address cannot be called yet: define it under use.functions"
            )
        return f"`call: {task.call}` cannot run here yet"
    if isinstance(task, RunTask) and task.process != "workflow":
        return (
            "" if f"serverless.{task.process}" in activities else f"`run: {task.process}` cannot run here yet"
        )
    return ""


def _schemas(document: Document) -> Iterator[tuple[str, str]]:
    for flow in data_flows(document.plan):
        yield from _resources(flow)


def _resources(flow: DataFlow) -> Iterator[tuple[str, str]]:
    for schema in (flow.input_schema, flow.output_schema, flow.export_schema):
        if schema is not None and schema.resource is not None:
            yield schema.pointer, "a schema cannot be fetched yet: write it under `document`"
