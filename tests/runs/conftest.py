"""A stage in memory: rows as the engine writes them, and a clock that moves when told to."""

from tests.watchdog.conftest import memory_stage as memory_stage
