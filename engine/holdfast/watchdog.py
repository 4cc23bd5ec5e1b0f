"""The TaskWatchdog: ``from holdfast.watchdog import TaskWatchdog``."""

from holdfast_watchdog.report import WatchdogReport
from holdfast_watchdog.watchdog import TaskWatchdog

__all__ = ["TaskWatchdog", "WatchdogReport"]
