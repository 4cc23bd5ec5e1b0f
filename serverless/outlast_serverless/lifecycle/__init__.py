"""Lifecycle events: what becomes of runs and tasks, told to the bus or to other systems."""
