"""Walking through a plan: all its tasks, those of functions and extensions too."""

from __future__ import annotations

from collections.abc import Iterator

from outlast_serverless.plan.model import (
    CallTask,
    DoTask,
    Extension,
    ForkTask,
    ForTask,
    ListenTask,
    Plan,
    Task,
    TaskList,
    TryTask,
)
from outlast_serverless.plan.model import (
    Iterator as Foreach,
)


def tasks_of(plan: Plan) -> Iterator[Task]:
    """Yield every task of a plan once."""
    seen: set[str] = set()
    for task in (*plan.functions.values(), *plan.tasks.tasks):
        yield from _from(task, seen)


def lists_of(task: Task) -> Iterator[TaskList]:
    """Yield the lists of tasks inside a task; not those of its extensions."""
    found: tuple[TaskList | None, ...] = ()
    if isinstance(task, DoTask | ForTask):
        found = (task.tasks,)
    elif isinstance(task, ForkTask):
        found = (task.branches,)
    elif isinstance(task, TryTask):
        found = (task.tasks, task.catch.tasks)
    elif isinstance(task, ListenTask | CallTask):
        found = (_of_iterator(task.iterator),)
    yield from (one for one in found if one is not None)


def _from(task: Task, seen: set[str]) -> Iterator[Task]:
    if task.pointer in seen:
        return
    seen.add(task.pointer)
    yield task
    for inner in (*lists_of(task), *_of_extensions(task.extensions)):
        for one in inner.tasks:
            yield from _from(one, seen)


def _of_extensions(extensions: tuple[Extension, ...]) -> Iterator[TaskList]:
    for extension in extensions:
        yield from (one for one in (extension.before, extension.after) if one is not None)


def _of_iterator(iterator: Foreach | None) -> TaskList | None:
    return None if iterator is None else iterator.tasks
