"""When the admitter looks at a queue: at news of its own process at once, at those of others after a pause at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.worker.fakes import Notes

from outlast.worker.runs.admitter import (
    LONGEST_PAUSE_AFTER_ONE_S,
    LONGEST_PAUSE_S,
    PAUSE_PER_ROTATION,
    Admitter,
)
from outlast_runs.admission import Admission


class Stage:
    """An admitter, the time that it sees, and what it asks for."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.now = 100.0
        self.notes.environment.clock.monotonic = lambda: self.now
        dispatcher = SimpleNamespace(types=frozenset(), start_admitted=lambda admitted, slots: None)
        claimer = SimpleNamespace(on_room=[], paused=False, limit=10, arriving=set())
        settings = SimpleNamespace(queues=None, worker_id="one", task_queues=["default"])
        parts: list[Any] = [self.notes, settings, frozenset({"Tried"}), dispatcher, claimer, None, None]
        self.admitter = Admitter(*parts)

    def found_nothing(self, *, position: Any = None, took: float = 0.001) -> None:
        """End the look that is under way."""
        ((_, done),) = self.notes.submitted
        self.notes.submitted.clear()
        self.now += took
        done(Admission(position=position, waiting=frozenset() if position is None else None), None)

    def ended(self, partition: str) -> None:
        """Tell of the end of a run."""
        run = SimpleNamespace(queue="q", partition_key=partition, closed_at=1, queued_at=None)
        self.admitter.on_commit(cast("Any", run))

    @property
    def hints(self) -> tuple[list[str], bool]:
        """What the look under way was told, and whether it is to look at nothing else."""
        ((change, _),) = self.notes.submitted
        return list(change.hints), change.only_hints

    @property
    def looks(self) -> int:
        """How many looks are under way: one, or none."""
        return len(self.notes.submitted)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_others_write_in_a_pause_is_looked_at_when_it_ends(stage: Stage) -> None:
    stage.admitter.look("q")
    stage.found_nothing()
    stage.admitter.look("q")
    assert stage.looks == 0
    (wake,) = stage.notes.later
    stage.now += PAUSE_PER_ROTATION * 0.001
    wake()
    assert stage.looks == 1


def test_the_pause_after_one_look_is_short_however_long_that_took(stage: Stage) -> None:
    stage.admitter.look("q")
    stage.found_nothing(took=5)
    stage.now += LONGEST_PAUSE_AFTER_ONE_S
    stage.admitter.look("q")
    assert stage.looks == 1


def test_the_pause_after_a_rotation_of_many_looks_lasts_ten_times_as_long(stage: Stage) -> None:
    stage.admitter.look("q")
    stage.found_nothing(position=(False, "t"), took=0.03)
    stage.found_nothing(took=0.03)
    stage.now += 0.6 - 0.001
    stage.admitter.look("q")
    assert stage.looks == 0
    stage.now += 0.002
    stage.admitter.look("q")
    stage.found_nothing(position=(False, "t"), took=1)
    stage.found_nothing()
    stage.now += LONGEST_PAUSE_S
    stage.admitter.look("q")
    assert stage.looks == 1


def test_news_of_the_own_process_end_the_pause(stage: Stage) -> None:
    stage.admitter.look("q")
    stage.found_nothing()
    stage.ended("t")
    assert stage.hints == (["t"], False)


def test_where_all_partitions_are_full_news_of_one_lead_to_a_look_at_that_alone(stage: Stage) -> None:
    stage.admitter.look("q")
    stage.found_nothing(position=(False, "t"), took=0.03)
    stage.found_nothing(took=0.03)
    stage.ended("t")
    assert stage.hints == (["t"], True)
    stage.ended("u")
    stage.ended("v")
    stage.found_nothing()
    assert stage.hints == (["u", "v"], True)
    stage.found_nothing()
    assert stage.looks == 0
    # The pause ends as it would have ended without these.
    stage.now += 0.6
    stage.admitter.look("q")
    assert stage.hints == ([], False)
    stage.found_nothing()
    stage.ended("t")
    assert stage.hints == (["t"], False)
