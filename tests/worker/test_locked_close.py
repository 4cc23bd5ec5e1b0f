"""Closing a run under its lock: when that is due, and whatever its code raises there, the journal goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.changes import start
from tests.conformance.conftest import journal as journal
from tests.engine.run_rows import NOW, run_row
from tests.worker.fakes import Notes

from outlast.worker.runs.locked_close import MOST_REFUSALS, LockedCloser, RunLockedWorkflowTask
from outlast_store.journal.journal import Journal
from outlast_workflow.environment import Environment
from outlast_workflow.errors import RefusedError, StoreUnreachableError


@pytest.fixture
def anyio_backend() -> str:
    """A real journal has a thread, and real time."""
    return "asyncio"


def closer(load: Callable[[str], None] = lambda run_id: None) -> tuple[Notes, LockedCloser]:
    notes = Notes()
    parts: Any = notes
    return notes, LockedCloser(parts, parts, parts, load)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.booleans()), max_size=40))
def test_it_is_due_after_so_many_refusals_in_a_row_without_progress(story: list[tuple[str, bool]]) -> None:
    _, closing = closer()
    in_a_row = {"a": 0, "b": 0}
    for run_id, refused in story:
        if refused:
            in_a_row[run_id] += 1
            due = in_a_row[run_id] == MOST_REFUSALS
            assert closing.is_due(run_id) is due
            if due:
                in_a_row[run_id] = 0
        else:
            closing.forget(run_id)
            in_a_row[run_id] = 0


@pytest.mark.parametrize(
    ("applied", "error", "loads"),
    [
        ("applied", None, False),
        (None, RefusedError("fenced", "another's"), False),
        (None, RefusedError("task", "its code failed"), True),
        (None, StoreUnreachableError("nobody answers"), True),
        (None, None, True),
    ],
)
def test_a_run_that_may_still_be_open_and_ours_is_loaded_again(
    applied: str | None, error: Exception | None, loads: bool
) -> None:
    loaded: list[str] = []
    notes, closing = closer(loaded.append)
    run = run_row(1, created_at=NOW)
    closing.close(run)
    ((change, done),) = notes.submitted
    assert (change.runs, change.instances, change.needs_locks) == ((run.run_id,), (run.workflow_id,), True)
    done(applied, error)
    assert loaded == ([run.run_id] if loads else [])


class Odd(BaseException):
    """Something that no `except Exception` catches."""


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, Odd, GeneratorExit])
async def test_whatever_the_code_raises_is_a_refusal_and_the_journal_goes_on(
    journal: Journal, error: type[BaseException]
) -> None:
    started = await journal.apply(start(Environment(), "w-1"))
    run = run_row(1, created_at=NOW, run_id=started.run_id, workflow_id="w-1", fence=0, inbox=0)

    def raising(*args: Any) -> Any:
        raise error("by the code")

    with pytest.raises(RefusedError) as caught:
        await journal.apply(RunLockedWorkflowTask(run, raising))
    assert caught.value.reason == "task"
    assert (await journal.apply(start(Environment(), "w-2"))).created


async def test_a_run_of_another_owner_is_left_alone(journal: Journal) -> None:
    started = await journal.apply(start(Environment(), "w-1"))
    run = run_row(1, created_at=NOW, run_id=started.run_id, workflow_id="w-1", fence=7)
    with pytest.raises(RefusedError) as caught:
        await journal.apply(RunLockedWorkflowTask(run, lambda *args: pytest.fail("its code is not run")))
    assert caught.value.reason == "fenced"
