"""What tests of workflows need: the engine on a virtual clock, a checker of what it wrote, a replayer of histories."""

from outlast.testing.activities import ActivityEnvironment
from outlast.testing.clock import VirtualClock, VirtualLoop, VirtualTimeError
from outlast.testing.environment import TestEnvironment
from outlast.testing.invariants.checker import check_database
from outlast.testing.replayer import ReplayedRun, Replayer, ReplayReport

__all__ = [
    "ActivityEnvironment",
    "ReplayReport",
    "ReplayedRun",
    "Replayer",
    "TestEnvironment",
    "VirtualClock",
    "VirtualLoop",
    "VirtualTimeError",
    "check_database",
]
