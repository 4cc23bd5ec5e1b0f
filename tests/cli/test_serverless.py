"""`outlast serverless` runs documents: alone, or through a database and a worker."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cli.conftest import Command, Running
from tests.serverless.processes import engine

from outlast import Client
from outlast_serverless import DocumentState, OpenTask
from outlast_serverless.state_output import show_state
from outlast_store.database.sql_text import fetch

HEAD = "document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}\n"


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """Writes a document, and returns its file."""

    def write(text: str) -> str:
        file = tmp_path / "document.yaml"
        file.write_text(HEAD + text)
        return str(file)

    return write


def test_a_document_runs_alone(bare: Command, written: Callable[[str], str], tmp_path: Path) -> None:
    file = written("do: [{a: {set: {hello: '${ .name }'}}}]")
    done = bare("serverless", "run", file, "--input", '{"name": "you"}')
    assert (done.code, orjson.loads(done.out)) == (0, {"hello": "you"})
    given = tmp_path / "input.json"
    given.write_text('{"name": "file"}')
    [line] = bare("serverless", "run", file, "--input", f"@{given}", "--json").lines
    assert (line["phase"], line["output"]) == ("completed", {"hello": "file"})


def test_a_fault_is_told(bare: Command, written: Callable[[str], str]) -> None:
    file = written("do: [{w: {wait: PT1H, timeout: {after: PT0.05S}}}]")
    done = bare("serverless", "run", file)
    assert done.code == 1
    assert "faulted at /do/0/w: the task took longer than PT0.05S" in done.err
    [line] = bare("serverless", "run", file, "--json").lines
    assert (line["phase"], line["error"]["status"], line["error"]["instance"]) == ("faulted", 408, "/do/0/w")


def test_what_cannot_be_used_starts_nothing(
    outlast: Command, written: Callable[[str], str], url: str
) -> None:
    outlast("migrate")
    broken = outlast("serverless", "start", written("do: [{a: {set: '${ . | nothing }'}}]"))
    assert broken.code == 1
    assert "nothing/0 is not defined" in broken.err
    several = outlast(
        "serverless", "start", written("do: [{a: {set: {x: '${ .a | }'}, then: b}}, {c: {do: []}}]")
    )
    assert [line.partition(": ")[0] for line in several.err.splitlines()] == [
        "outlast",
        "  2:20",
        "  2:40",
        "  2:50",
    ]
    assert "unexpected end" in several.err
    call = (
        "do: [{a: {call: asyncapi, with: {document: {endpoint: 'https://x/a'}, operation: o, protocol: amqp,\n"
        "  message: {}}}}]"
    )
    refused = outlast("serverless", "start", written(call))
    assert refused.code == 1
    assert "/do/0/a: nobody speaks the protocol 'amqp' here" in refused.err
    schema = "input: {schema: {document: {type: object}}}\ndo: [{a: {set: {v: 1}}}]"
    assert "n/a was not started: the input of the workflow does not fit its schema" in (
        outlast("serverless", "start", written(schema), "--input", "3").err
    )
    assert outlast("serverless", "start", written(schema), "--input", "{").code == 2
    assert outlast("count", "--json").lines[0]["count"] == 0


def test_a_file_that_is_not_there_hides_no_other(bare: Command, written: Callable[[str], str]) -> None:
    done = bare("serverless", "validate", "nothing.yaml", written("do: []"))
    assert (done.code, "nothing.yaml cannot be read" in done.err) == (1, True)
    assert "the list of tasks is empty" in done.out


def test_documents_are_registered(outlast: Command, written: Callable[[str], str]) -> None:
    assert "no documents are registered" in (outlast("migrate"), outlast("serverless", "list"))[1].out
    file = written("do: [{a: {set: {v: 1}}}]")
    [registered] = outlast("serverless", "register", file, "--json").lines
    assert (registered["document"], registered["new"]) == ("n/a:0.1.0", True)
    assert "unchanged: n/a:0.1.0" in outlast("serverless", "register", file).out
    assert "n/a" in outlast("serverless", "list").out
    assert outlast("serverless", "show", "n/a").out == Path(file).read_text() + "\n"
    refused = outlast("serverless", "register", written("do: [{a: {set: {v: 2}}}]"))
    assert (refused.code, "give the new content another version" in refused.err) == (1, True)
    [started] = outlast("serverless", "start", "n/a", "--json").lines
    assert started["document"] == "n/a:0.1.0"
    assert outlast("serverless", "show", "n/b").code == 3
    assert outlast("serverless", "start", "order").code == 2


def test_a_document_is_scheduled(outlast: Command, written: Callable[[str], str]) -> None:
    outlast("serverless", "register", written("schedule: {every: PT1H}\ndo: [{a: {set: {v: 1}}}]"))
    unscheduled = outlast("serverless", "schedule", "n/a", "show")
    assert (
        unscheduled.code,
        "n/a is not scheduled: `outlast serverless schedule n/a on`" in unscheduled.err,
    ) == (3, True)
    assert "scheduled n/a" in outlast("serverless", "schedule", "n/a", "on").out
    assert "serverless:n/a" in outlast("schedule", "list").out
    assert "every 1 h" in outlast("serverless", "schedule", "n/a", "show").out
    [off] = outlast("serverless", "schedule", "n/a", "off", "--json").lines
    assert off == {"schedule_id": "serverless:n/a", "scheduled": False}
    assert outlast("serverless", "schedule", "n/a", "off").code == 3
    assert outlast("serverless", "schedule", "n/a", "sometimes").code == 2


def test_it_is_started_described_suspended_and_run(
    outlast: Command, written: Callable[[str], str], start_process: Callable[..., Running], url: str
) -> None:
    file = written("timeout: {after: PT1H}\ndo: [{w: {wait: PT0.2S}}, {s: {set: {done: true}}}]")
    done = outlast("serverless", "start", file, "--id", "w", "--json")
    assert (done.json["workflow_id"], done.json["document"]) == ("w", "n/a:0.1.0")
    assert "start `outlast serverless worker --task-queue default`" in done.err
    assert "n/a:0.1.0, pending" in outlast("serverless", "describe", "w").out
    assert outlast("serverless", "suspend", "w").out == "w is told to suspend\n"
    worker = start_process("serverless", "worker", "--json", "--url", url)
    assert worker.line()["event"] == "started"
    waiting = outlast("result", "w", "--timeout", "1s")
    assert waiting.code == 5
    [state] = outlast("serverless", "describe", "w", "--json").lines
    assert (state["phase"], state["document"]) == ("suspended", "n/a")
    assert outlast("serverless", "resume", "w").code == 0
    assert orjson.loads(outlast("result", "w").out) == {"done": True}
    assert worker.stop().code == 0
    # The worker is gone, and what has run is told all the same, in 80 columns.
    told = outlast("serverless", "trace", "w").out.splitlines()
    assert [line.split()[0] for line in told] == ["w:", "TASK", "/do/0/w", "/do/1/s"]
    assert [line.split()[-1] for line in told[2:]] == ["completed", "completed"]
    assert all(len(line) <= 80 for line in told)
    whole = outlast("serverless", "trace", "w", "--json", "--data").lines
    assert (whole[1]["pointer"], whole[1]["output"]) == ("/do/1/s", {"done": True})
    first, rest = outlast("serverless", "trace", "w", "--json", "--limit", "1").lines
    assert (first["pointer"], "output" in first) == ("/do/0/w", False)
    [second] = outlast("serverless", "trace", "w", "--json", "--cursor", rest["cursor"]).lines
    assert second["pointer"] == "/do/1/s"
    assert f"--cursor {rest['cursor']}" in outlast("serverless", "trace", "w", "--limit", "1").out
    assert outlast("serverless", "trace", "w", "--data").code == 2
    assert outlast("serverless", "trace", "nobody").code == 3


def test_what_is_open_is_told_apart_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    long = "/do/3/reconcile-the-statements-of-every-customer/fork/branches/{}/branch-{}"
    tasks = [
        OpenTask(long.format(number, number), "wait", "it=12", now - timedelta(hours=1.5), now + timedelta(7))
        for number in range(2)
    ]
    state = DocumentState("w", "shop/order", "1.0.0", "waiting", now + timedelta(hours=2), None, tuple(tasks))
    monkeypatch.setenv("COLUMNS", "80")
    show_state(state, now)
    narrow = capsys.readouterr().out.splitlines()
    assert narrow[1] == "timeout of the workflow: 2026-11-28 14:00:00.000Z (in 2 h)"
    assert [line.split() for line in narrow[3:]] == [
        ["…er/fork/branches/0/branch-0#it=12", "wait", "1", "h", "30", "min", "ago", "in", "7", "d"],
        ["…er/fork/branches/1/branch-1#it=12", "wait", "1", "h", "30", "min", "ago", "in", "7", "d"],
    ]
    assert max(map(len, narrow)) <= 80
    monkeypatch.setenv("COLUMNS", "140")
    show_state(replace(state, phase="cancelled"), now)
    wide = capsys.readouterr().out.splitlines()
    assert wide[2].split()[-2:] == ["2026-12-05", "12:00:00.000Z"]
    assert "timeout" not in wide[1], "what has ended has no deadline"


def test_policies_and_secrets_are_options(
    bare: Command, written: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_KEY", "very-secret")
    file = written(
        "use: {secrets: [key]}\n"
        "do: [{c: {run: {shell: {command: 'test \"$K\" = very-secret && echo yes',\n"
        "                        environment: {K: '${ $secrets.key }'}}}}},\n"
        "     {s: {run: {script: {language: python, code: 'print(input())', stdin: '${ . }'}}}}]"
    )
    refused = bare("serverless", "run", file)
    assert (refused.code, "the secret key cannot be used" in refused.err) == (1, True)
    denied = bare("serverless", "run", file, "--secrets-env", "APP_")
    assert (denied.code, "ProcessPolicy(shell=True)" in denied.err) == (1, True)
    options = ("--secrets-env", "APP_", "--allow-shell", "--allow-script", "python")
    assert orjson.loads(bare("serverless", "run", file, *options).out) == "yes\n"
    assert bare("serverless", "run", file, "--allow-script", "ruby").code == 2


def test_containers_are_allowed_by_options(
    bare: Command, written: Callable[[str], str], tmp_path: Path
) -> None:
    file = written(
        f"do: [{{c: {{run: {{container: {{image: hello, ports: {{'80': 80}}, volumes: {{'{tmp_path}': /x}}}}}}}}}}]"
    )
    command = shlex.join((sys.executable, "-I", "-S", engine.__file__, str(tmp_path)))
    options = ("--allow-containers", command, "--allow-mount", str(tmp_path), "--allow-publish", "127.0.0.1")
    assert orjson.loads(bare("serverless", "run", file, *options).out) == "Hello from hello\n"
    denied = bare("serverless", "run", file, *options[:4])
    assert (denied.code, "ProcessPolicy(publish='127.0.0.1')" in denied.err) == (1, True)
    assert bare("serverless", "run", file, "--allow-mount", "a/b").code == 2


def test_a_catalog_and_folders_are_options(
    bare: Command, written: Callable[[str], str], tmp_path: Path
) -> None:
    function = tmp_path / "catalog/functions/f/1.0.0/function.yaml"
    function.parent.mkdir(parents=True)
    function.write_text("set: {v: 1}")
    file = written(f"do: [{{a: {{call: 'f:1.0.0@default'}}}}, {{b: {{call: 'file://{function}'}}}}]")
    assert "no default catalog" in bare("serverless", "run", file).err
    denied = bare("serverless", "run", file, "--catalog", str(tmp_path / "catalog"))
    assert "allows no files" in denied.err
    options = ("--catalog", str(tmp_path / "catalog"), "--allow-files", str(tmp_path))
    assert orjson.loads(bare("serverless", "run", file, *options).out) == {"v": 1}


def test_a_document_is_scheduled_on_events(outlast: Command, written: Callable[[str], str]) -> None:
    text = "schedule: {on: {one: {with: {type: paid}}}}\ndo: [{a: {set: {v: 1}}}]"
    outlast("serverless", "register", written(text))
    [on] = outlast("serverless", "schedule", "n/a", "on", "--json").lines
    assert on == {"schedule_id": "serverless-schedule:n/a", "scheduled": True}
    assert (
        "serverless-schedule:n/a: n/a:0.1.0, pending" in outlast("serverless", "schedule", "n/a", "show").out
    )
    [shown] = outlast("serverless", "schedule", "n/a", "show", "--json").lines
    assert (shown["workflow_id"], shown["phase"]) == ("serverless-schedule:n/a", "pending")
    assert outlast("serverless", "schedule", "n/a", "off").code == 0
    assert outlast("serverless", "schedule", "n/a", "show").code == 3
    assert outlast("serverless", "schedule", "n/a", "off").code == 3


def test_each_event_starts_one_run_whatever_dies(
    outlast: Command,
    written: Callable[[str], str],
    start_process: Callable[..., Running],
    url: str,
    tmp_path: Path,
) -> None:
    text = "schedule: {on: {one: {with: {type: paid}}}, read: data}\ndo: [{a: {set: {v: '${ .[0] }'}}}]"
    outlast("serverless", "register", written(text))
    outlast("serverless", "schedule", "n/a", "on")
    id = "serverless-schedule:n/a"
    events = tmp_path / "events.json"
    for life in range(3):
        worker = start_process("serverless", "worker", "--json", "--url", url)
        assert worker.line()["event"] == "started"
        while "listen" not in outlast("serverless", "describe", id).out:
            pass
        numbers = range(6 * life, 6 * life + 6)
        events.write_bytes(
            orjson.dumps([{"id": str(n), "source": "/s", "type": "paid", "data": n} for n in numbers])
        )
        assert outlast("serverless", "publish", str(events)).code == 0
        if life < 2:
            # It dies in the midst of starting runs.
            worker.stop(signal.SIGKILL)

    def completed() -> list[dict[str, Any]]:
        listed = outlast(
            "list", "--type", "serverless:n/a", "--status", "completed", "--limit", "100", "--json"
        )
        return listed.lines

    while len(listed := completed()) < 18:
        pass

    async def results() -> list[int]:
        async with Client.connect(url) as client:
            return [(await client.handle(one["workflow_id"]).result())["v"] for one in listed]

    assert sorted(asyncio.run(results())) == list(range(18))


def test_events_are_published(
    outlast: Command,
    written: Callable[[str], str],
    start_process: Callable[..., Running],
    url: str,
    tmp_path: Path,
) -> None:
    file = written("do: [{l: {listen: {to: {any: [{with: {type: paid}}], until: length == 3}}}}]")
    outlast("serverless", "start", file, "--id", "l")
    worker = start_process("serverless", "worker", "--json", "--url", url)
    assert worker.line()["event"] == "started"
    assert (
        "published: paid one"
        in outlast("serverless", "publish", "--to", "l", "--type", "paid", "--id", "one", "--data", "1").out
    )
    while "listen" not in outlast("serverless", "describe", "l").out:
        pass
    events = tmp_path / "events.json"
    events.write_text('[{"id": "2", "source": "/s", "type": "paid", "data": 2}]')
    [told] = outlast("serverless", "publish", str(events), "--json").lines
    assert told == {"id": "2", "source": "/s", "type": "paid", "new": True}
    assert "known already: paid 2" in outlast("serverless", "publish", str(events)).out
    # Whoever comes after the one that died goes on where it was.
    worker.stop(signal.SIGKILL)
    outlast("serverless", "publish", "--type", "paid", "--data", "3")
    second = start_process("serverless", "worker", "--json", "--url", url)
    assert orjson.loads(outlast("result", "l").out) == [1, 2, 3]
    assert second.stop().code == 0
    assert outlast("serverless", "publish").code == 2
    assert outlast("serverless", "publish", "--type", "").code == 2


def test_lifecycle_events_survive_every_death(
    outlast: Command, written: Callable[[str], str], start_process: Callable[..., Running], url: str
) -> None:
    """Workers that export are killed in the midst of it, and each event is there in the end, once and in its order."""
    file = written("do: [{f: {for: {in: '[range(30)]'}, do: [{w: {wait: PT0.1S}}]}}]")
    args = ("serverless", "worker", "--lifecycle", "bus", "--json", "--url", url)
    first = start_process(*args)
    assert first.line()["event"] == "started"
    outlast("serverless", "start", file, "--id", "w")

    async def told() -> list[tuple[str, str]]:
        async with Client.connect(url) as client:
            text = "SELECT id, event_type FROM serverless_events ORDER BY event_key"
            return [(id, kind) for id, kind in await client.runtime.read(fetch, text, ())]

    while not (events := asyncio.run(told())):
        pass
    first.stop(signal.SIGKILL)
    first = start_process(*args)
    assert first.line()["event"] == "started"
    while not any("workflow.completed" in kind for _, kind in events):
        events = asyncio.run(told())
    first.stop(signal.SIGKILL)
    kinds = [kind.removeprefix("io.serverlessworkflow.").removesuffix(".v1") for _, kind in events]
    once = ["task.created", "task.started", "task.completed"]
    assert kinds == ["workflow.started", *once[:2], *(once * 30), once[2], "workflow.completed"]
    places = [[int(part) for part in id.split(":")[1:]] for id, _ in events]
    assert places == sorted(places)
