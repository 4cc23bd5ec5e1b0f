"""What tests of workflows need: the engine on a virtual clock, and a checker of what it wrote."""

from holdfast.testing.clock import VirtualClock, VirtualLoop, VirtualTimeError
from holdfast.testing.environment import TestEnvironment
from holdfast.testing.invariants import check_database

__all__ = ["TestEnvironment", "VirtualClock", "VirtualLoop", "VirtualTimeError", "check_database"]
