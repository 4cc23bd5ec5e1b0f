"""The TaskWatchdog: ``from outlast.watchdog import TaskWatchdog``."""

from outlast_watchdog.report import WatchdogReport
from outlast_watchdog.watchdog import TaskWatchdog

__all__ = ["TaskWatchdog", "WatchdogReport"]
