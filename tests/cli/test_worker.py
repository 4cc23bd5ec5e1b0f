"""`outlast worker` and `watchdog`: what they load, and how they stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli import programs
from tests.cli.conftest import Command, Running

from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.user_code import converter, load
from outlast.errors import InvalidOptionError

PROGRAMS = "tests.cli.programs"


# --- running --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_works_until_it_is_told_to_stop(
    start_process: Callable[..., Running], outlast: Command, url: str, number: signal.Signals
) -> None:
    worker = start_process("worker", PROGRAMS, "--json", "--build-id", "b-7", "--url", url)
    started = worker.line()
    assert started["event"] == "started"
    assert started["task_queues"] == ["default"]
    assert started["workflows"] == [
        "Doubling",
        "Ledger",
        "asking",
        "broken",
        "fail",
        "hanging",
        "kills_its_worker",
        "mailing",
        "sleep_long",
    ]
    assert started["activities"] == ["ask", "double", "hang", "mail"]
    done = outlast("start", "Doubling", "--input", "4", "--wait", "--timeout", "30s", "--json")
    assert done.json["result"]["doubled"] == 8
    (registered,) = outlast("workers", "--json").lines
    assert (registered["worker_id"], registered["build_id"]) == (started["worker_id"], "b-7")
    ended = worker.stop(number)
    assert ended.code == 0, ended.err
    assert ended.lines == [{"event": "stopped", "worker_id": started["worker_id"]}]
    assert "Traceback" not in ended.err
    assert outlast("workers", "--json").lines == []


def test_a_worker_ends_though_a_handler_refuses_to(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    """Its attempt is rescued when the lease is over; waiting for it could take for ever."""
    worker = start_process(
        "worker", "tests.cli.stubborn", "--graceful-shutdown-timeout", "0", "--json", "--url", url
    )
    worker.line()
    outlast("start", "waits_for_it", "--id", "w")
    give_up_at = time.monotonic() + 30
    while not [one for one in pending(outlast) if one["heartbeat_details"]]:
        assert time.monotonic() < give_up_at
    ended = worker.stop()
    assert (ended.code, ended.lines[-1]["event"]) == (0, "stopped"), ended.err
    assert "1 activities run on; they are rescued when the lease ends" in ended.err
    (left,) = outlast("workers", "--json").lines
    assert left["activities_held"] == 1


def pending(outlast: Command) -> list[Any]:
    found: list[Any] = outlast("describe", "w", "--json").json["pending_activities"]
    return found


def test_a_worker_takes_its_options(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    worker = start_process(
        "worker", f"{PROGRAMS}:Doubling", f"{PROGRAMS}:ACTIVITIES", "--task-queue", "a", "--task-queue", "b",
        "--max-cached-workflows", "0", "--max-concurrent-activities", "3", "--lease-duration", "3",
        "--graceful-shutdown-timeout", "0", "--no-watchdog", "--watchdog-interval", "2s", "--log-level", "debug",
        "--static-checks", "error", "--no-runtime-guard", "--interceptor", f"{PROGRAMS}:Quiet", "--json", "--url", url,
    )  # fmt: skip
    started = worker.line()
    assert started["task_queues"] == ["a", "b"]
    assert started["workflows"] == ["Doubling"]
    for queue in ("a", "b"):
        done = outlast(
            "start", "Doubling", "--input", "1", "--task-queue", queue, "--wait", "--timeout", "30s"
        )
        assert done.code == 0
        assert '"more": "seen"' in done.out
    assert worker.stop().code == 0


def test_a_watchdog_enforces_deadlines_without_a_worker(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    outlast("migrate")
    watchdog = start_process("watchdog", "--interval", "100ms", "--json", "--url", url)
    assert set(watchdog.line()) >= {"passed_at", "counts", "left", "next_deadline_at"}
    outlast("start", "sleep_long", "--id", "w", "--run-timeout", "1")
    ended = outlast("result", "w", "--timeout", "30s", "--json")
    assert ended.json["status"] == "timed_out"
    assert watchdog.line()["counts"] == {"run_timeout": 1}
    done = watchdog.stop()
    assert (done.code, "Traceback" in done.err) == (0, False), done.err


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_watchdog_takes_its_options(
    start_process: Callable[..., Running], outlast: Command, url: str, level: str
) -> None:
    """It declares a worker dead after half of the lease that it is told: before one that was there sooner, without."""
    lease = ["--lease-duration", "1s", "--json", "--url", url]
    worker = start_process("worker", PROGRAMS, "--no-watchdog", *lease)
    worker.line()
    patient = start_process("watchdog", "--json", "--url", url)
    patient.line()
    watchdog = start_process("watchdog", "--log-level", level, *lease)
    watchdog.line()
    worker.stop(signal.SIGKILL)
    assert watchdog.line()["counts"] == {"worker_lost": 1}
    patient.stop()
    ended = watchdog.stop()
    assert ended.code == 0
    assert ("is lost" in ended.err) == (level == "info")
    assert outlast("workers", "--json").lines == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--interval", "0"], "watchdog interval must be positive"),
        (["--lease-duration", "long"], "lease duration must be a number of seconds"),
        (["--lease-duration", "0"], "lease duration must be positive"),
        (["--log-level", "loud"], "log level must be debug, info, warning or error"),
        (["--owner-losses", "-1"], "owner losses limit must be a whole number"),
    ],
)
def test_a_watchdog_refuses_what_can_not_be(outlast: Command, options: list[str], message: str) -> None:
    outlast("migrate")
    done = outlast("watchdog", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize("given", [[], ["--owner-losses", "1"]])
def test_a_watchdog_ends_a_run_that_loses_more_owners_than_it_is_told(
    start_process: Callable[..., Running], outlast: Command, url: str, given: list[str]
) -> None:
    outlast("start", "kills_its_worker", "--id", "w")
    lease = ["--lease-duration", "1s", "--json", "--url", url]
    counts: dict[str, int] = {}
    for _ in range(2):
        worker = start_process("worker", PROGRAMS, "--no-watchdog", *lease)
        worker.line()
        assert worker.process.wait(30) == -signal.SIGKILL
        watchdog = start_process("watchdog", *given, *lease)
        watchdog.line()
        counts = watchdog.line()["counts"]
        watchdog.stop()
    assert ("owners_died" in counts) == bool(given), counts
    assert outlast("describe", "w", "--json").json["run"]["status"] == ("failed" if given else "pending")


def test_one_pass_of_the_watchdog_prints_its_report(process: Command, outlast: Command, url: str) -> None:
    outlast("start", "sleep_long", "--id", "w", "--run-timeout", "1")
    report = process("watchdog", "--once", "--json", "--url", url)
    assert report.code == 0, report.err
    assert report.json["left"] == {}
    outlast("result", "w", "--timeout", "1100ms")
    done = process("watchdog", "--once", "--url", url)
    assert done.code == 0
    assert done.out.startswith(("run timeout 1, at worst", "nothing was due"))
    assert outlast("result", "w", "--json").json["status"] == "timed_out"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-cached-workflows=-1"], "max cached workflows must be a whole number, 0 or more"),
        (["--max-concurrent-activities=-1"], "max concurrent activities must be a whole number, 0 or more"),
        (["--max-cached-workflows", "many"], "Invalid value for '--max-cached-workflows'"),
        (["--lease-duration", "0.5"], "lease duration must be at least 1 second"),
        (["--lease-duration", "long"], "lease duration must be a number of seconds"),
        (["--lease-duration", "nan"], "lease duration must be finite"),
        (["--graceful-shutdown-timeout=-1"], "graceful shutdown timeout must not be negative"),
        (["--watchdog-interval", "0"], "watchdog interval must be positive"),
        (["--task-queue", ""], "task queue must not be empty"),
        (["--static-checks", "maybe"], "static checks must be 'warn', 'error' or 'off'"),
        (["--log-level", "loud"], "log level must be debug, info, warning or error"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_worker_refuses_what_can_not_be(
    bare: Command, sqlite_url: str, options: list[str], message: str
) -> None:
    done = bare("worker", PROGRAMS, *options, "--url", sqlite_url)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_module_in_the_current_folder_is_found(process: Command, tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "broken_orders.py").write_text("1 / 0")
    done = process("worker", "broken_orders", "--url", sqlite_url, cwd=tmp_path)
    assert done.code == 1
    assert "module 'broken_orders' cannot be imported: ZeroDivisionError: division by zero" in done.err
    assert done.err.count("ZeroDivisionError") == 1
    assert "Traceback" not in done.err
    shown = process("worker", "broken_orders", "--url", sqlite_url, cwd=tmp_path, OUTLAST_DEBUG="1")
    assert 'broken_orders.py", line 1' in shown.err


def test_a_module_that_is_not_there_is_bad_usage(bare: Command, sqlite_url: str) -> None:
    missing = bare("worker", "no_orders", "--url", sqlite_url)
    assert missing.code == 2
    assert "there is no module 'no_orders'" in missing.err


# --- loading --------------------------------------------------------------------------------------------------------


def names(*targets: str) -> tuple[set[str], set[str]]:
    workflows, activities = load(targets)
    return {thing.__name__ for thing in workflows}, {thing.name for thing in activities}


def test_a_module_stands_for_what_it_defines() -> None:
    assert names(PROGRAMS) == (
        {
            "Doubling",
            "Ledger",
            "asking",
            "broken",
            "fail",
            "sleep_long",
            "hanging",
            "kills_its_worker",
            "mailing",
        },
        {"ask", "double", "hang", "mail"},
    )


def test_a_name_stands_for_one_thing_or_a_list() -> None:
    assert names(f"{PROGRAMS}:Doubling") == ({"Doubling"}, set())
    assert names(f"{PROGRAMS}:double") == (set(), {"double"})
    assert names(f"{PROGRAMS}:fail", f"{PROGRAMS}:ACTIVITIES") == (
        {"fail"},
        {"ask", "double", "hang", "mail"},
    )
    assert names(f"{PROGRAMS}:EVERYTHING", PROGRAMS) == names(PROGRAMS)
    assert names("tests.cli:programs") == names(PROGRAMS)


def test_what_with_options_gives_is_the_same_activity_once() -> None:
    _, activities = load([PROGRAMS, f"{PROGRAMS}:patient_double"])
    assert [thing for thing in activities if thing.name == "double"] == [programs.double]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no.such.module", "there is no module 'no'"),
        ("tests.cli.nothing", "there is no module 'tests.cli.nothing'"),
        ("", "'' is not the name of a module"),
        ("tests/cli/programs.py", "leave '.py' and folders out, as in tests.cli.programs"),
        (f"{PROGRAMS}:nothing", f"module '{PROGRAMS}' has no 'nothing'"),
        (f"{PROGRAMS}:", f"module '{PROGRAMS}' has no ''"),
        (
            f"{PROGRAMS}:NUMBER",
            "is neither a workflow nor an activity, nor a list of them: it is (or holds) a int",
        ),
        ("json", "module 'json' defines no workflow and no activity"),
        (
            "tests.cli.borrowing",
            "it imports tests.cli.programs:Doubling, tests.cli.programs:double: name those",
        ),
    ],
)
def test_a_target_that_can_not_be_says_what_is_wrong(
    target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    borrowing = type(sys)("tests.cli.borrowing")
    vars(borrowing).update(Doubling=programs.Doubling, double=programs.double)
    monkeypatch.setitem(sys.modules, "tests.cli.borrowing", borrowing)
    with pytest.raises(InvalidOptionError) as caught:
        load([target])
    assert message in str(caught.value)


def test_a_module_that_needs_what_is_not_there_says_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_orders.py").write_text("import a_module_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CommandFailedError, match="No module named 'a_module_that_is_not_there'"):
        load(["needy_orders"])


class Backwards:
    name = "backwards"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


backwards = Backwards()


def make_backwards() -> Backwards:
    return Backwards()


@pytest.mark.parametrize("name", ["Backwards", "backwards", "make_backwards"])
def test_a_codec_may_be_an_object_a_class_or_a_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "some_codecs", sys.modules[__name__])
    found = converter(f"some_codecs:{name}")
    assert found is not None
    assert found.encode([1]).value["$codec"] == "backwards"
    assert converter(None) is None


def test_the_command_line_reads_and_writes_through_the_codec(
    outlast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "some_codecs", sys.modules[__name__])
    outlast(
        "start",
        "Order",
        "--id",
        "o",
        "--memo",
        '{"a": 1}',
        "--input",
        "1",
        "--codec",
        "some_codecs:backwards",
    )
    assert outlast("describe", "o", "--json", "--codec", "some_codecs:backwards").json["run"]["memo"] == {
        "a": 1
    }
    assert outlast("describe", "o", "--json").json["run"]["memo"]["$codec"] == "backwards"
    (started, *_) = outlast("history", "o", "--json").lines
    assert started["payload"]["input"]["$codec"] == "backwards"
