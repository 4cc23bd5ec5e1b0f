"""What goes wrong before anything is done: one line, the right exit code, and nothing written."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command, command_line, environment

from outlast.cli.commands import COMMANDS, OTHER_NAMES
from outlast.version import __version__
from outlast_migrations.revisions import VERSION_TABLE


def test_the_version_is_the_last_word(process: Command) -> None:
    done = process("--version")
    assert (done.code, done.out, done.err) == (0, f"outlast {__version__}\n", "")


def test_help_lists_the_commands_and_each_has_its_own(bare: Command) -> None:
    names = [*COMMANDS, "ui"]
    assert len(names) == len(set(names)) > 10
    for arguments in (["--help"], ["-h"], []):
        done = bare(*arguments)
        assert done.code == (0 if arguments else 2)
        for name in names:
            assert f" {name} " in done.out
    for name in names:
        if name != "demo":
            assert bare(str(name), "--help").code == 0
    assert bare("demo", "--help").out.startswith("usage: outlast demo")


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["describe", "x"], ["start", "X"], ["migrate"], ["worker", "os"], ["watchdog"], ["count"]],
    ids=lambda arguments: arguments[0],
)
def test_without_a_database_it_says_how_to_name_one(
    bare: Command, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("OUTLAST_URL", value)
        done = bare(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            "outlast: no database: give --url or set OUTLAST_URL, for example --url sqlite:///orders.db\n"
        )


def test_the_environment_names_the_database(bare: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare("start", "Order", "--url", url).code == 0
    monkeypatch.setenv("OUTLAST_URL", url)
    assert bare("count").out == "1\n"


@pytest.mark.parametrize(
    ("bad_url", "code", "message"),
    [
        (
            "orders.db",
            2,
            "that is not a database URL: it has no '://': use sqlite:///orders.db or postgresql://",
        ),
        ("mysql://x", 2, "the scheme 'mysql' is not supported"),
        ("sqlite://orders.db", 2, "has two slashes"),
        ("sqlite:////no/such/folder/x.db", 4, "does not exist: check the path"),
        ("postgresql://u@127.0.0.1:1/x?connect_timeout=2", 4, "cannot be reached"),
    ],
)
def test_a_database_that_is_not_there(bare: Command, bad_url: str, code: int, message: str) -> None:
    done = bare("list", "--url", bad_url)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_looking_does_not_make_a_file(bare: Command, sqlite_url: str) -> None:
    for arguments in (
        ["list"],
        ["count"],
        ["describe", "x"],
        ["watchdog", "--once"],
        ["workers"],
        ["cancel", "x"],
    ):
        done = bare(*arguments, "--url", sqlite_url)
        assert done.code == 4, arguments
        assert "`outlast worker` and `start` create a new file" in done.err
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


def test_a_database_in_memory_is_refused_since_nobody_else_would_see_it(bare: Command) -> None:
    for url in ("sqlite://", "sqlite:///", "sqlite:///:memory:"):
        for arguments in (
            *(["start", "X"], ["worker", "json"], ["worker", "json", "--processes", "2"], ["migrate"]),
            *(["list"], ["result", "x"], ["watchdog", "--once"], ["top", "--once"], ["ui"]),
        ):
            done = bare(*arguments, "--url", url)
            assert (done.code, done.out) == (2, ""), (arguments, done)
            assert "names no file" in done.err
            assert "sqlite:///orders.db" in done.err


@pytest.mark.postgresql
def test_a_database_without_tables_says_so(bare: Command, new_postgresql_url: Callable[..., str]) -> None:
    empty = new_postgresql_url(migrated=False)
    done = bare("list", "--url", empty)
    assert (done.code, done.out) == (4, "")
    assert "has no Outlast tables yet: run `outlast migrate" in done.err


def test_a_schema_of_a_later_version_is_left_alone(bare: Command, sqlite_url: str) -> None:
    assert bare("migrate", "--url", sqlite_url).code == 0
    path = sqlite_url.removeprefix("sqlite:///")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.commit()
    connection.close()
    for arguments in (["list"], ["migrate"], ["start", "X"]):
        done = bare(*arguments, "--url", sqlite_url)
        assert done.code == 4
        assert "newer than this code's" in done.err


def test_a_file_that_is_no_database_says_so(bare: Command, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database " * 100)
    done = bare("list", "--url", f"sqlite:///{tmp_path / 'x.db'}")
    assert done.code == 4
    assert "is not a SQLite database" in done.err


USAGE = [
    (["list", "--nope"], "No such option: --nope"),
    (["frobnicate"], "No such command 'frobnicate'"),
    (["describe"], "Missing argument 'ID'"),
    (["start"], "Missing argument 'TYPE'"),
    (["start", ""], "workflow must not be empty"),
    (["start", "X", "--id", ""], "workflow id must not be empty"),
    (["start", "X", "--id", "x" * 201], "workflow id must be at most 200 characters"),
    (["start", "X", "--id", "a\nb"], "workflow id must not hold control characters"),
    (["start", "X", "--task-queue", ""], "task queue must not be empty"),
    (["start", "X", "--input", "o-1"], "input 1 is not JSON: 'o-1'; text needs its own quotes"),
    (["start", "X", "--input", "1", "--input", "{"], "input 2 is not JSON"),
    (["start", "X", "--input", "NaN"], "input 1 is not JSON"),
    (["start", "X", "--execution-timeout", "0"], "execution timeout must be at least 1 second"),
    (["start", "X", "--execution-timeout=-5"], "execution timeout must be at least 1 second"),
    (["start", "X", "--execution-timeout", "0.999"], "execution timeout must be at least 1 second"),
    (["start", "X", "--execution-timeout", "nan"], "execution timeout must be finite"),
    (["start", "X", "--execution-timeout", "inf"], "execution timeout must be finite"),
    (["start", "X", "--execution-timeout", "1e10"], "execution timeout must be at most 100 years"),
    (
        ["start", "X", "--execution-timeout", "soon"],
        "execution timeout must be a number of seconds, or like 90s",
    ),
    (["start", "X", "--execution-timeout", ""], "execution timeout must be a number of seconds, or like 90s"),
    (["start", "X", "--execution-timeout", "5 fortnights"], "execution timeout must be a number of seconds"),
    (["start", "X", "--run-timeout", "500ms"], "run timeout must be at least 1 second"),
    (["start", "X", "--run-timeout", "6000w"], "run timeout must be at most 100 years"),
    (["start", "X", "--start-delay=-1"], "start delay must not be negative"),
    (
        ["start", "X", "--start-delay", "2h", "--execution-timeout", "1h"],
        "start delay (7200 s) must be shorter",
    ),
    (["start", "X", "--priority", "10"], "priority must be from 0 to 9"),
    (["start", "X", "--priority=-1"], "priority must be from 0 to 9"),
    (["start", "X", "--priority", "high"], "Invalid value for '--priority'"),
    (["start", "X", "--retry-policy", "3"], "retry policy must be a JSON object"),
    (["start", "X", "--retry-policy", '{"max": 3}'], "retry policy has no 'max': it has initial_interval,"),
    (["start", "X", "--retry-policy", '{"jitter": 2}'], "retry jitter must be from 0 to 1"),
    (["start", "X", "--memo", "[1]"], "memo must be a JSON object"),
    (["start", "X", "--memo", "{"], "memo is not JSON: '{'; it must be a JSON object, as in '{\"customer\":"),
    (
        ["start", "X", "--policy", "maybe"],
        "duplicate policy must be one of allow_duplicate, allow_duplicate_failed_only",
    ),
    (["start", "X", "--wait", "--timeout", "0"], "timeout must be positive"),
    (["start", "X", "--timeout", "5"], "timeout limits --wait: give both"),
    (
        ["start", "X", "--codec", "fractions:Fraction.from_float"],
        "cannot be made without arguments: TypeError",
    ),
    (["worker", "./jobs/orders.py"], "leave '.py' and folders out, as in jobs.orders"),
    (["demo", "--rows", "x"], "argument --rows: invalid int value: 'x': see `outlast demo --help`"),
    (["demo", "--chunk", "0"], "--chunk must be 1 to 50,000"),
    (["start", "X", "--codec", "no_such_module:x"], "there is no module 'no_such_module'"),
    (["start", "X", "--codec", "json"], "codec must be MODULE:NAME"),
    (["start", "X", "--codec", "json:nope"], "module 'json' has no 'nope'"),
    (["start", "X", "--codec", "string:digits"], "'string:digits' is a str: a codec has a name"),
    (["list", "--status", "done"], "status must be one of queued, pending, running, completed"),
    (["list", "--limit=-1"], "limit must be at least 0"),
    (["list", "--limit", "many"], "Invalid value for '--limit'"),
    (["list", "--created-after", "yesterday"], "created after must be a time like"),
    (["list", "--created-after", "2026-01-31T12:00:00"], "has no offset, so it names no instant"),
    (["list", "--created-after", "1e300"], "created after must be a time like"),
    (
        ["list", "--created-after", "1h", "--created-before", "2h"],
        "created before must lie after created after",
    ),
    (["list", "--closed-before", "x"], "closed before must be a time like"),
    (["list", "--deadline-before", "-"], "deadline before must be a time like"),
    (["list", "--open", "--status", "failed"], "a run that is failed is not open"),
    (["list", "--open", "--closed"], "a run is open or closed: leave out --open and --closed for all"),
    (["count", "--where", "amount"], "where must be NAME, one of = < <= > >=, and a value"),
    (["count", "--where", "a=1", "--where", "a=2"], "where has 'a' twice"),
    (["count", "--where", "a>1", "--where", "a=2"], "where has 'a' twice"),
    (["count", "--where", "a>1", "--where", "a>=2"], "a Range has at_least or above, not both"),
    (["count", "--where", "a=null"], "where 'a' must be text, a number"),
    (["start", "X", "--attribute", "customer"], "attribute must be NAME=VALUE"),
    (["start", "X", "--attribute", 'a={"b": 1}'], "search attribute 'a' must be text, a number"),
    (["start", "outlast_cleanup"], "workflow 'outlast_cleanup' is reserved for the engine"),
    (["start", "X", "--task-queue", "outlast"], "task queue 'outlast' is reserved for the engine"),
    (["start", "X", "--attribute", "outlast.x=1"], "search attribute 'outlast.x' is reserved for the engine"),
    (["worker", "tests.cli.programs", "--task-queue", "outlast.x"], "task queue 'outlast.x' is reserved"),
    (["count", "--type", ""], "workflow type must not be empty"),
    (["count", "--task-queue", "a\tb"], "task queue must not hold control characters"),
    (["describe", ""], "workflow id must not be empty"),
    (["describe", "x", "--run-id", ""], "run id must not be empty"),
    (["history", "x", "--after=-1"], "after must be at least 0"),
    (["history", "x", "--after", "one"], "Invalid value for '--after'"),
    (["result", "x", "--timeout", "0"], "timeout must be positive"),
    (["result", "x", "--timeout", "nan"], "timeout must be finite"),
    (["cancel", "x" * 201], "workflow id must be at most 200 characters"),
    (["watchdog", "--once", "--interval", "0"], "watchdog interval must be positive"),
    (["watchdog", "--once", "--interval", "often"], "interval must be a number of seconds"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda value: " ".join(value)[:50])
def test_bad_usage_is_one_line_and_writes_nothing(
    bare: Command, sqlite_url: str, arguments: list[str], message: str
) -> None:
    bare("migrate", "--url", sqlite_url)
    done = bare(*arguments, "--url", sqlite_url)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("outlast: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert bare("count", "--url", sqlite_url).out == "0\n"


def test_a_payload_over_the_limit_is_refused_whole(bare: Command, sqlite_url: str) -> None:
    done = bare("start", "X", "--input", f'"{"x" * (2 * 1024 * 1024)}"', "--url", sqlite_url)
    assert done.code == 1
    assert "payload bytes limit exceeded" in done.err
    assert bare("count", "--url", sqlite_url).out == "0\n"


def test_debugging_shows_where_an_error_comes_from(bare: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in bare("list", "--url", "x").err
    monkeypatch.setenv("OUTLAST_DEBUG", "1")
    done = bare("list", "--url", "x")
    assert done.code == 2
    assert "Traceback (most recent call last)" in done.err
    monkeypatch.setenv("OUTLAST_DEBUG", "0")
    assert "Traceback" not in bare("list", "--url", "x").err
    assert "Traceback" in bare("--debug", "list", "--url", "x").err


def test_a_reader_that_has_seen_enough_is_no_error(bare: Command, sqlite_url: str) -> None:
    for _ in range(3):
        bare("start", "Order", "--url", sqlite_url)
    listing = subprocess.Popen(
        command_line("list", "--json", "--limit", "0", "--url", sqlite_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert listing.stdout is not None
    listing.stdout.close()
    _, err = listing.communicate(timeout=60)
    assert (listing.returncode, err) == (0, b"")


def test_nobody_reads_the_environment_but_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` puts nothing into the environment that was not asked for."""
    before = dict(os.environ)
    from outlast.cli.main import run

    run(["list"])
    assert dict(os.environ) == before


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_command_of_another_tool_names_ours(bare: Command, name: str) -> None:
    done = bare(name, "something")
    assert done.code == 2
    assert f"No such command '{name}'" in done.err
    assert f"use {OTHER_NAMES[name]}; see `outlast --help`" in done.err
    assert name not in COMMANDS
    for command in re.findall(r"outlast ([a-z]+)", OTHER_NAMES[name]):
        assert command in {*COMMANDS, "ui"}
