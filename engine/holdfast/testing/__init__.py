"""What tests of workflows need: the engine on a virtual clock, a checker of what it wrote, a replayer of histories."""

from holdfast.testing.activities import ActivityEnvironment
from holdfast.testing.clock import VirtualClock, VirtualLoop, VirtualTimeError
from holdfast.testing.environment import TestEnvironment
from holdfast.testing.invariants import check_database
from holdfast.testing.replayer import ReplayedRun, Replayer, ReplayReport

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
