"""Plans as Mermaid flowcharts."""

from __future__ import annotations

from typing import Final

from outlast_serverless.plan.model import (
    CallTask,
    Directive,
    DoTask,
    ForkTask,
    ForTask,
    ListenTask,
    Plan,
    RaiseTask,
    RunTask,
    SwitchTask,
    Task,
    TaskList,
    TryTask,
)

MOST_LETTERS: Final = 60
_ESCAPES: Final = {ord(char): f"#{ord(char)};" for char in '"<>#&`[](){}|\\;'} | {
    ord(char): " " for char in "\r\n\t"
}


def graph(plan: Plan) -> str:
    """Return a plan as a Mermaid flowchart: tasks are boxes, lists inside of tasks are groups.

    Args:
        plan: The plan.
    """
    drawing = _Drawing()
    drawing.lines += ['  start(["start"])', '  finish(["end"])']
    drawing.draw(plan.tasks, "start", "finish", 1)
    return "\n".join(["flowchart TD", *drawing.lines, *drawing.arrows]) + "\n"


class _Drawing:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrows: list[str] = []
        self.count = 0

    def draw(self, tasks: TaskList, before: str, after: str, depth: int) -> None:
        """Draw the tasks of a list between two nodes."""
        nodes = [self.task(task, depth) for task in tasks.tasks]
        self.arrow(before, nodes[0])
        for index, task in enumerate(tasks.tasks):
            following = nodes[index + 1] if index + 1 < len(nodes) else after
            for directive, label in _ways(task):
                self.arrow(nodes[index], self.target(directive, tasks, nodes, following, after), label)

    @staticmethod
    def target(directive: Directive, tasks: TaskList, nodes: list[str], following: str, after: str) -> str:
        """Return the node that a directive leads to."""
        if directive.kind == "task":
            return nodes[tasks.positions[directive.target]]
        return {"continue": following, "exit": after, "end": "finish"}[directive.kind]

    def task(self, task: Task, depth: int) -> str:
        """Draw a task with what is inside of it, and return its node."""
        self.count += 1
        node = f"t{self.count}"
        indent = "  " * depth
        inside = _inside(task)
        if not inside:
            shape = ("{", "}") if isinstance(task, SwitchTask) else ("[", "]")
            self.lines.append(f'{indent}{node}{shape[0]}"{_words(task)}"{shape[1]}')
            return node
        self.lines.append(f'{indent}subgraph {node}["{_words(task)}"]')
        for label, tasks, parallel in inside:
            self._part(node, label, tasks, parallel, depth + 1)
        self.lines.append(f"{indent}end")
        return node

    def _part(self, node: str, label: str, tasks: TaskList, parallel: bool, depth: int) -> None:
        self.count += 1
        begin, end, indent = f"{node}b{self.count}", f"{node}e{self.count}", "  " * depth
        self.lines.append(f'{indent}{begin}(["{label}"])')
        if parallel:
            for branch in tasks.tasks:
                self.arrow(begin, self.task(branch, depth))
            return
        self.lines.append(f'{indent}{end}((" "))')
        self.draw(tasks, begin, end, depth)

    def arrow(self, source: str, target: str, label: str = "") -> None:
        """Draw an arrow."""
        self.arrows.append(f"  {source} -->{f'|{_text(label)}|' if label else ''} {target}")


def _ways(task: Task) -> list[tuple[Directive, str]]:
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


def _inside(task: Task) -> list[tuple[str, TaskList, bool]]:
    """Return the lists inside of a task, each with what it is called and whether it is run side by side."""
    if isinstance(task, DoTask):
        return [("do", task.tasks, False)]
    if isinstance(task, ForTask):
        return [(f"each {_text(task.each)}", task.tasks, False)]
    if isinstance(task, ForkTask):
        return [("first wins" if task.compete else "all", task.branches, True)]
    if isinstance(task, TryTask):
        caught = task.catch.tasks
        return [("try", task.tasks, False), *([("catch", caught, False)] if caught is not None else [])]
    if (
        isinstance(task, ListenTask | CallTask)
        and task.iterator is not None
        and task.iterator.tasks is not None
    ):
        return [(f"each {_text(task.iterator.item)}", task.iterator.tasks, False)]
    return []


def _words(task: Task) -> str:
    kind = type(task).__name__.removesuffix("Task").lower()
    what = task.call if isinstance(task, CallTask) else task.process if isinstance(task, RunTask) else ""
    return f"{_text(task.name)}<br/>{kind}{f' {_text(what)}' if what else ''}"


def _text(text: str) -> str:
    shown = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
    return shown.translate(_ESCAPES) or "#32;"
