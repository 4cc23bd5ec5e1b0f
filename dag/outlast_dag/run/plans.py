"""What a planner has planned: checked as any DAG is, and by what the planner may do; then run as a child.

The planned DAG is a run of its own. So its history is bounded by itself, its spec is recorded with it, and what goes
wrong in it is undone there and fails one node of the DAG that has asked for the plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlast_dag.check.report import in_order, report
from outlast_dag.spec.dag import DagSpec, name_within
from outlast_dag.spec.nodes import Call, Child, Plan
from outlast_dag.spec.reading import read_spec
from outlast_dag.spec.values import Ref, obj
from outlast_workflow.errors import DagValidationError
from outlast_workflow.errors.documents import Problem
from outlast_workflow.loop.futures import DeterministicFuture
from outlast_workflow.loop.loop import DeterministicLoop


def planned(value: Any, dag: str, node: Plan) -> DagSpec:
    """Return the DAG that a planner has returned.

    Without a name it is called after its planner. Without an output it returns what its last node returns, of several
    an object with each by its id.

    Args:
        value: What the planner's activity has returned.
        dag: The name of the DAG that has asked for the plan.
        node: The planner.

    Raises:
        DagValidationError: It cannot be run, or does what the planner may not; ``problems`` are all of it.
    """
    name = name_within(dag, node.id)
    if not isinstance(value, Mapping):
        raise _refused(name, "bad_document", "is no JSON object", 'return {"nodes": […]}')
    nodes = value.get("nodes")
    if isinstance(nodes, list) and len(nodes) > node.max_nodes:
        # So many are not read one by one.
        raise _refused(name, *_too_many(len(nodes), node))
    spec = read_spec({"name": name, **value})
    if "output" not in value:
        spec = replace(spec, output=_last_outputs(spec))
    problems = in_order([*report(spec).errors, *_forbidden(spec, node)])
    if problems:
        raise DagValidationError(spec.name, problems)
    return spec


def problems_of_plan(value: Any, dag: str, node: Plan) -> list[Problem]:
    """Return why what a planner has returned cannot be run.

    Args:
        value: What the planner's activity has returned.
        dag: The name of the DAG that has asked for the plan.
        node: The planner.
    """
    try:
        planned(value, dag, node)
    except DagValidationError as error:
        return list(error.problems)
    return []


def _forbidden(spec: DagSpec, node: Plan) -> Iterator[Problem]:
    """Yield what the planner may not do."""
    most = len(spec.nodes) + sum(one.max_nodes for one in spec.nodes if isinstance(one, Plan))
    if most > node.max_nodes:
        kind, message, advice = _too_many(most, node)
        yield Problem(kind, "", "nodes", f"{message}, those of its own planners included", advice)
    for parameter in spec.params:
        if parameter.required:
            yield Problem(
                "not_allowed",
                "",
                "params",
                f"asks for {parameter.name!r}, which nobody gives it",
                "write the value",
            )
    for index, one in enumerate(spec.nodes):
        types = [one.type] if isinstance(one, Call | Child) else []
        if isinstance(one, Plan):
            types += one.allow
        for type in dict.fromkeys(types):
            if type not in node.allow:
                yield Problem(
                    "not_allowed",
                    one.id,
                    f"nodes[{index}]",
                    f"calls {type!r}, and {node.id} may plan {', '.join(node.allow) or 'nothing'}",
                    "allow it, or plan without it",
                )


def _too_many(count: int, node: Plan) -> tuple[str, str, str]:
    return "too_large", f"plans {count:,} nodes, and {node.id} may plan {node.max_nodes:,}", "raise max_nodes"


def _refused(name: str, kind: str, message: str, advice: str) -> DagValidationError:
    return DagValidationError(name, [Problem(kind, "", "", message, advice)])


def _last_outputs(spec: DagSpec) -> Any:
    """Return the output of the one node that nothing depends on; of several, an object of them."""
    last = [name for name, consumers in spec.graph.consumers.items() if not consumers]
    return Ref("of", last[0]) if len(last) == 1 else obj((name, Ref("of", name)) for name in last)


class PlanFuture(DeterministicFuture[Any]):
    """The planner's call, and then the run of what it has planned: done when that is.

    Args:
        loop: The run's event loop.
        call: The planner's call.
        begin: Begins what was planned; returns the future of its run.
    """

    def __init__(
        self,
        loop: DeterministicLoop,
        call: asyncio.Future[Any],
        begin: Callable[[Any], asyncio.Future[Any]],
    ) -> None:
        super().__init__(loop.hashes, loop)
        self._current = call
        self._begin = begin
        self._stopping = False
        call.add_done_callback(self._called)

    def cancel(self, msg: Any = None) -> bool:
        """Ask what is under way to stop. Nothing is begun afterwards."""
        self._stopping = True
        return self._current.cancel(msg)

    def _called(self, call: asyncio.Future[Any]) -> None:
        if call.cancelled() or call.exception() is not None:
            self._ended(call)
            return
        if self._stopping:
            super().cancel()
            return
        try:
            self._current = self._begin(call.result())
        except DagValidationError as error:
            self.set_exception(error)
        else:
            self._current.add_done_callback(self._ended)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            super().cancel()
        elif (error := future.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(future.result())
