"""The TaskWatchdog: ``from outlast.watchdog import TaskWatchdog``."""

from outlast_watchdog.report import WatchdogReport
from outlast_watchdog.rules import AlertRule
from outlast_watchdog.watchdog import TaskWatchdog

__all__ = ["AlertRule", "TaskWatchdog", "WatchdogReport"]
