"""Tools for tests of workflows: the engine on a virtual clock, an invariant checker, a replayer of histories."""

from typing import TYPE_CHECKING

from outlast.testing.activities import ActivityEnvironment
from outlast.testing.blocking_environment import BlockingTestEnvironment
from outlast.testing.clock import VirtualClock, VirtualLoop, VirtualTimeError
from outlast.testing.environment import TestEnvironment
from outlast.testing.invariants.checker import check_database
from outlast.testing.replayer import ReplayedRun, Replayer, ReplayReport
from outlast.testing.stuck_runs import StuckWorkflowError
from outlast_workflow.primitives.lazy_names import names_of_module

__all__ = [
    "ActivityEnvironment",
    "BlockingTestEnvironment",
    "ReplayReport",
    "ReplayedRun",
    "Replayer",
    "StuckWorkflowError",
    "TestEnvironment",
    "VirtualClock",
    "VirtualLoop",
    "VirtualTimeError",
    "check_database",
]

if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
