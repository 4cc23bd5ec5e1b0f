"""Plans as Mermaid flowcharts."""

from __future__ import annotations

from typing import Final

from outlast_serverless.picture.flow import Part, kind_of, parts_of, ways_of
from outlast_serverless.plan.model import Directive, Plan, SwitchTask, Task, TaskList

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
            for directive, label in ways_of(task):
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
        inside = parts_of(task)
        if not inside:
            shape = ("{", "}") if isinstance(task, SwitchTask) else ("[", "]")
            self.lines.append(f'{indent}{node}{shape[0]}"{_words(task)}"{shape[1]}')
            return node
        self.lines.append(f'{indent}subgraph {node}["{_words(task)}"]')
        for part in inside:
            self._part(node, part, depth + 1)
        self.lines.append(f"{indent}end")
        return node

    def _part(self, node: str, part: Part, depth: int) -> None:
        self.count += 1
        begin, end, indent = f"{node}b{self.count}", f"{node}e{self.count}", "  " * depth
        self.lines.append(f'{indent}{begin}(["{_text(part.label or "do")}"])')
        if part.parallel:
            for branch in part.tasks.tasks:
                self.arrow(begin, self.task(branch, depth))
            return
        self.lines.append(f'{indent}{end}((" "))')
        self.draw(part.tasks, begin, end, depth)

    def arrow(self, source: str, target: str, label: str = "") -> None:
        """Draw an arrow."""
        self.arrows.append(f"  {source} -->{f'|{_text(label)}|' if label else ''} {target}")


def _words(task: Task) -> str:
    return f"{_text(task.name)}<br/>{_text(kind_of(task))}"


def _text(text: str) -> str:
    shown = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
    return shown.translate(_ESCAPES) or "#32;"
