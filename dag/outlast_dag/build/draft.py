"""A DAG while it is being written: its steps as the user gave them, and what was found wrong so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from outlast_dag.build.sources import users_line
from outlast_dag.check.checks import MAX_SEGMENT
from outlast_dag.spec.nodes import CompensateWhen, Rule
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DagValidationError, OutlastError
from outlast_workflow.errors.documents import Problem
from outlast_workflow.options.activity import ActivityOptions

Role = Literal["on_failure", "compensate"]
"""Why a step runs for another one: because that one has failed, or to undo it."""


@dataclass(slots=True, eq=False)
class Step:
    """A node as the user gave it.

    Attributes:
        kind: The kind of node.
        id: Its id, its groups included.
        source: Where it is written.
        type: The activity type.
        signature: The signature of the activity, if it was not given by name.
        declared: The options of the activity's declaration.
        result_hint: The type hint of the output.
        args: The arguments as they were given; ``None`` for what its producers return.
        over: The list of a map.
        given: The options of this step by name.
        fields: Fields of the spec's node, by name.
        after: What it comes after: outputs and ids.
        rule: How that must have ended.
        skip: Conditions under which it is skipped.
        run: Conditions that must hold for it to run.
        on_failure: The step that runs if it fails, or the id of one.
        compensate: The step that undoes it, or the id of one.
        compensate_when: Whether it is undone only if it has completed, or also if it has only begun.
        serves: Why it runs for another step, and for which; known when the DAG is built.
    """

    kind: str
    id: str
    source: str
    type: str = ""
    signature: CallSignature | None = None
    declared: ActivityOptions | None = None
    result_hint: Any = Any
    args: tuple[Any, ...] | None = None
    over: Any = None
    given: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    after: list[Any] = field(default_factory=list)
    rule: Rule = "all_succeeded"
    skip: list[Any] = field(default_factory=list)
    run: list[Any] = field(default_factory=list)
    on_failure: Any = None
    compensate: Any = None
    compensate_when: CompensateWhen = "completed"
    serves: tuple[Role, Step] | None = None


@dataclass(slots=True, eq=False)
class Draft:
    """A DAG as the user gave it.

    Attributes:
        name: The workflow type of its runs.
        source: Where it is written.
        params: Its parameters.
        given: The options of the DAG by name.
        steps: Its nodes, in the order of declaration.
        problems: What was found wrong so far.
    """

    name: str
    source: str
    params: CallSignature
    given: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def add(self, step: Step, id: str | None) -> Step:
        """Add a step, and give it its id: the one given, or one made of its activity's name.

        Args:
            step: The step.
            id: Its id, without its groups.
        """
        prefix = "".join(f"{group}/" for group in self.groups)
        if id is None:
            base = re.sub(r"[^A-Za-z0-9_-]", "_", step.type)[: MAX_SEGMENT - 4] or step.kind
            id, number = base, 1
            while prefix + id in self.ids:
                number += 1
                id = f"{base}_{number}"
        step.id = prefix + id
        self.ids.add(step.id)
        self.steps.append(step)
        return step

    def problem(self, kind: str, step: Step | None, message: str, advice: str, source: str = "") -> None:
        """Keep what is wrong until the DAG is built.

        Args:
            kind: What it is, for programs.
            step: The step; ``None`` for the DAG as a whole.
            message: What is wrong.
            advice: What to do about it.
            source: Where, if not where the step or the DAG is written.
        """
        where = source or (step.source if step is not None else self.source)
        self.problems.append(Problem(kind, step.id if step is not None else "", where, message, advice))

    def attempt(self, kind: str, step: Step | None, check: Callable[[], Any]) -> Any:
        """Return what a check returns; ``None`` and a problem if it refuses.

        Args:
            kind: The kind of the problem.
            step: The step that is checked; ``None`` for the DAG as a whole.
            check: What to call.
        """
        try:
            return check()
        except OutlastError as error:
            self.problem(kind, step, error.message, "")
            return None

    @contextmanager
    def group(self, name: str) -> Generator[None, None, None]:
        """Put the steps that are added meanwhile into a group: their ids begin with its name and a slash.

        Args:
            name: The group's name.
        """
        self.groups.append(name)
        try:
            yield
        finally:
            self.groups.pop()


def outside(what: str) -> DagValidationError:
    """Return the error for a step that is called where no DAG is traced.

    Args:
        what: What was called.
    """
    problem = Problem(
        "outside_dag",
        "",
        users_line(),
        f"{what} was called outside a function with @dag",
        "call it in one, or in a function that one calls",
    )
    return DagValidationError("(none)", [problem])
