"""DAGs: graphs of steps, each with a mandatory timeout, that run as ordinary workflows.

:class:`DagBuilder` builds one step by step, ``@dag`` by a function. What is built is given to a client and a worker as
any workflow is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast_dag.build.builder import DagBuilder, Handle
from outlast_dag.build.calls import child, last, plan, repeat
from outlast_dag.build.outputs import all_of, any_of, exists, is_in, none_of, or_else
from outlast_dag.build.steps import DetachedChild
from outlast_dag.build.trace import dag, each, group, step
from outlast_dag.build.waiting import approval, sleep, wait_for
from outlast_dag.check.critical_path import CriticalPath
from outlast_dag.definition import DagDefinition
from outlast_dag.run.actions import NodeFailure
from outlast_dag.run.approvals import Decision
from outlast_dag.run.documents import any_dag
from outlast_dag.run.dry_run import DryRun, dry_run
from outlast_dag.spec.dag import DagSpec
from outlast_workflow.errors import DagValidationError
from outlast_workflow.errors.documents import Problem
from outlast_workflow.primitives.lazy_names import lazy_names

if TYPE_CHECKING:
    from outlast.visibility.dags import DagDescription, DagNode
    from outlast_dag.decisions import approve
    from outlast_dag.description.describing import describe

__all__ = [
    "CriticalPath",
    "DagBuilder",
    "DagDefinition",
    "DagDescription",
    "DagNode",
    "DagSpec",
    "DagValidationError",
    "Decision",
    "DetachedChild",
    "DryRun",
    "Handle",
    "NodeFailure",
    "Problem",
    "all_of",
    "any_dag",
    "any_of",
    "approval",
    "approve",
    "child",
    "dag",
    "describe",
    "dry_run",
    "each",
    "exists",
    "group",
    "is_in",
    "last",
    "none_of",
    "or_else",
    "plan",
    "repeat",
    "sleep",
    "step",
    "wait_for",
]

if not TYPE_CHECKING:
    # Code that declares DAGs loads no database.
    __getattr__ = lazy_names(
        __name__,
        {
            "outlast.visibility.dags": ("DagDescription", "DagNode"),
            "outlast_dag.decisions": ("approve",),
            "outlast_dag.description.describing": ("describe",),
        },
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
