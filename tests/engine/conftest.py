"""The engine end to end: in virtual time on each store, in several modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine import family, programs
from tests.engine.modes import MODES, TwoWorkers, deliver_twice, is_for_the_night

from outlast.testing import TestEnvironment, VirtualLoop

MakeEnvironment = Callable[..., TestEnvironment]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Coroutine tests of this folder live in virtual time; a module for real time says so itself."""
    return "asyncio", {"loop_factory": VirtualLoop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ``make test`` leaves out of the databases and modes is for the night; ``one_worker`` is not for two."""
    items[:] = [
        item
        for item in items
        if not ("one_worker" in getattr(item, "fixturenames", ()) and "two_workers" in item.name)
        and not ("written_once" in getattr(item, "fixturenames", ()) and "double_delivery" in item.name)
    ]
    for item in items:
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        database, mode = params.get("database_url"), params.get("mode")
        left_out = "two_workers" if "one_worker" in getattr(item, "fixturenames", ()) else None
        if database and mode and is_for_the_night((database, mode), left_out):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Each way in which the engine is run: see :mod:`tests.engine.modes`."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def max_cached(mode: str) -> int:
    """Runs that stay in memory, and runs that come back by replay for every workflow task."""
    return 0 if mode == "always_replay" else 1000


@pytest.fixture
def one_worker() -> None:
    """For a test that knows which worker does what: it is not run with two."""


@pytest.fixture
def written_once() -> None:
    """For a test that makes one write fail: a second one of the same would hide that."""


@pytest.fixture(autouse=True)
def _counted_afresh() -> None:
    programs.calls.clear()


@pytest.fixture
def engine(database_url: str, mode: str, max_cached: int, monkeypatch: pytest.MonkeyPatch) -> MakeEnvironment:
    """Makes environments on each store, in each mode; by default with all programs."""
    if mode == "double_delivery":
        deliver_twice(monkeypatch)

    def make(**options: Any) -> TestEnvironment:
        given: dict[str, Any] = {
            "workflows": programs.WORKFLOWS,
            "activities": programs.ACTIVITIES,
            "url": database_url,
            "max_cached_workflows": max_cached,
        }
        made = TwoWorkers if mode == "two_workers" else TestEnvironment
        return made(**{**given, **options})

    return make


@pytest.fixture
def families(engine: MakeEnvironment) -> MakeEnvironment:
    """As ``engine``, with the programs that have children, too."""
    workflows = [*programs.WORKFLOWS, *family.WORKFLOWS]
    return lambda **options: engine(**{"workflows": workflows, **options})


@pytest.fixture
def in_memory() -> MakeEnvironment:
    """As ``engine``, in memory only: for what no store and no mode makes a difference to."""

    def make(**options: Any) -> TestEnvironment:
        given: dict[str, Any] = {"workflows": programs.WORKFLOWS, "activities": programs.ACTIVITIES}
        return TestEnvironment(**{**given, **options})

    return make


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process, and those that it starts, write what they do: see :mod:`tests.engine.process`."""
    path = tmp_path / "diary"
    path.touch()
    monkeypatch.setenv("DIARY", str(path))
    monkeypatch.setenv("NAME", "parent")
    return path
