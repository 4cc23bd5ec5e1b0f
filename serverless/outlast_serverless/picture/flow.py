"""What a picture of a plan shows of a task: of what kind it is, what is inside of it, and where it goes on."""

from __future__ import annotations

from typing import NamedTuple

from outlast_serverless.plan.model import (
    CallTask,
    Directive,
    DoTask,
    ForkTask,
    ForTask,
    ListenTask,
    RaiseTask,
    RunTask,
    SwitchTask,
    Task,
    TaskList,
    TryTask,
)


class Part(NamedTuple):
    """A list of tasks inside of a task.

    Attributes:
        label: What it is called; empty if that is as the task.
        tasks: The list.
        parallel: Whether its tasks are run side by side.
    """

    label: str
    tasks: TaskList
    parallel: bool


def kind_of(task: Task) -> str:
    """Return of what kind a task is: ``call http``, ``wait`` …"""
    kind = type(task).__name__.removesuffix("Task").lower()
    what = task.call if isinstance(task, CallTask) else task.process if isinstance(task, RunTask) else ""
    return f"{kind} {what}" if what else kind


def ways_of(task: Task) -> list[tuple[Directive, str]]:
    """Return where a task may go on, and when."""
    ways: list[tuple[Directive, str]] = []
    if isinstance(task, SwitchTask):
        ways += [(case.then, case.name) for case in task.cases]
        if all(case.when is not None for case in task.cases):
            ways.append((task.then, "no match"))
        if task.condition is not None:
            ways.append((Directive("continue"), "skipped"))
        return ways
    if not isinstance(task, RaiseTask):
        ways.append((task.then, ""))
    if task.condition is not None and (not ways or task.then.kind != "continue"):
        ways.append((Directive("continue"), "skipped"))
    if isinstance(task, TryTask) and task.catch.then is not None:
        ways.append((task.catch.then, "caught"))
    return ways


def parts_of(task: Task) -> list[Part]:
    """Return the lists inside of a task."""
    if isinstance(task, DoTask):
        return [Part("", task.tasks, False)]
    if isinstance(task, ForTask):
        return [Part(f"each {task.each}", task.tasks, False)]
    if isinstance(task, ForkTask):
        return [Part("the first to end wins" if task.compete else "all branches", task.branches, True)]
    if isinstance(task, TryTask):
        caught = task.catch.tasks
        return [
            Part("try", task.tasks, False),
            *([Part("catch", caught, False)] if caught is not None else []),
        ]
    if (
        isinstance(task, ListenTask | CallTask)
        and task.iterator is not None
        and task.iterator.tasks is not None
    ):
        return [Part(f"each {task.iterator.item}", task.iterator.tasks, False)]
    return []
