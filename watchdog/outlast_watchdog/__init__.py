"""The TaskWatchdog: deadlines, timers, lost workers and stuck runs."""
