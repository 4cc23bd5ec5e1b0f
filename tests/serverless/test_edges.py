"""What is too long, too deep or too late: it is an error of the document, and never a run that stands still."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from tests.serverless.cases import continue_everywhere, whole
from tests.serverless.events.cases import event, listens, subscriptions

from outlast import Client
from outlast.errors import FaultedError, InvalidOptionError, PayloadEncodeError
from outlast.testing import TestEnvironment
from outlast_serverless import Document, Runtime
from outlast_serverless.bus.changes import DropSubscriptions
from outlast_serverless.events.cloud_events import checked_event
from outlast_store.database.sql_text import fetch

CHILD = "document: {dsl: '1.0.3', namespace: n, name: child, version: '0.1.0'}\ndo: [{a: {set: {v: 7}}}]"
CAUGHT = """catch: {errors: {with: {status: 408}},
               do: [{c: {set: {caught: true}}}, {d: {do: [{e: {set: '${ . + {done: true} }'}}]}}]}}}]"""


def make(text: str) -> Document:
    return Document.parse(whole(text))


async def output(text: str, url: str) -> Any:
    async with (
        TestEnvironment(url=url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.register(make(CHILD))
        return await (await runtime.start(make(text))).result()


LOOP = "b: {do: [{x: {set: {n: 1}}}, {l: {for: {in: '[range(50)]'}, do: [{w: {wait: PT1S}}]}}], TIMEOUT}"
LISTENS = """b: {do: [{l: {listen: {to: {any: [{with: {type: t}}], until: length == 9}},
                        foreach: {do: [{w: {wait: PT1S}}]}}}], TIMEOUT}"""


@pytest.mark.parametrize("task", [LOOP, LISTENS])
async def test_a_deadline_passes_between_two_runs_of_a_chain(
    task: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    continue_everywhere(monkeypatch)
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        task = task.replace("TIMEOUT", "timeout: {after: PT20S}")
        run = await runtime.start(make(f"do: [{{t: {{try: [{{{task}}}], {CAUGHT}"))
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            await asyncio.sleep(3.5)
            await runtime.publish(event(1))
            await asyncio.sleep(1)
        assert (await run.handle.describe()).run.run_number > 1
        await asyncio.sleep(60)
        # The next run finds that its time is up before it comes to where the one before was.
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            assert await run.result() == {"caught": True, "done": True}
        assert await subscriptions(env.client) == 0


@pytest.mark.parametrize("length", ["{days: 1e300}", "{days: 36500, hours: 1}", "{seconds: infinite}"])
async def test_a_length_of_time_that_cannot_be_kept_is_an_error(length: str, sqlite_url: str) -> None:
    with pytest.raises(FaultedError, match="longer than a hundred years") as raised:
        await output(f"do: [{{w: {{wait: '${{ {length} }}'}}}}]", sqlite_url)
    assert raised.value.error["instance"] == "/do/0/w"


async def test_a_delay_that_has_grown_too_long_is_as_long_as_can_be(sqlite_url: str) -> None:
    text = """do: [{t: {try: [{r: {raise: {error: {type: 'http://a/b', status: 500}}}}],
        catch: {retry: {delay: P36500D, jitter: {from: P1000D, to: P2000D}}}}}]"""
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(text))
        await asyncio.sleep(1)
        assert [one.kind for one in (await run.describe()).open] == ["backoff"]
        await run.handle.terminate()


async def test_the_id_of_a_subflow_is_never_too_long(sqlite_url: str) -> None:
    name = "n" * 120
    run = "{run: {workflow: {namespace: n, name: child, version: '0.1.0'}}}"
    assert await output(f"do: [{{? {name} : {{do: [{{? {name} : {run}}}]}}}}]", sqlite_url) == {"v": 7}


async def test_a_reset_starts_a_subflow_again_that_nobody_waits_for(sqlite_url: str) -> None:
    run = "run: {await: false, workflow: {namespace: n, name: child, version: '0.1.0'}}"
    async with (
        TestEnvironment(url=sqlite_url, replay=True) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.register(make(CHILD.replace("{set: {v: 7}}", "{wait: PT1H}")))
        first = await runtime.start(make(f"do: [{{s: {{{run}}}}}, {{w: {{wait: PT5S}}}}]"), id="a")
        await asyncio.sleep(1)
        # What it has started is still open.
        again = await (await first.handle.reset(3)).reset(3)
        assert await again.result() is None
        assert await runtime.run("a:/do/0/s").describe()


async def test_names_may_have_any_characters(sqlite_url: str) -> None:
    run = "{run: {workflow: {namespace: n, name: child, version: '0.1.0'}}}"
    assert await output(f'do: [{{"a\\n~/😀": {run}}}, {{"\\u0007": {{wait: PT1S}}}}]', sqlite_url) == {"v": 7}


async def test_long_filters_and_pointers_can_be_subscribed(database_url: str) -> None:
    name, letters = "n" * 1_200, "".join(chr(0x4E00 + 7 * number) for number in range(1500))
    correlate = f"correlate: {{k: {{from: '.data.{name}', expect: .}}}}"
    listen = f"listen: {{to: {{one: {{with: {{type: {letters}}}, {correlate}}}}}}}"
    text = f"do: [{{? {letters[:900]} : {{do: [{{l: {{{listen}, timeout: {{after: PT5S}}}}}}]}}}}]"
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(text), 1)
        await listens(run)
        with pytest.raises(FaultedError, match="longer than PT5S"):
            await run.result()


def test_data_in_base64_are() -> None:
    for data in ("###", 5):
        with pytest.raises(InvalidOptionError, match="Base64"):
            checked_event({"id": "1", "source": "/s", "type": "t", "data_base64": data})


@pytest.mark.parametrize("id", ["a\0b", "a\nb", "\ud800", "é" * 501])
def test_an_event_has_an_id_that_every_database_can_keep(id: str) -> None:
    with pytest.raises(InvalidOptionError, match="no CloudEvent"):
        checked_event({"id": id, "source": "/s", "type": "t"})


async def test_an_event_is_not_deeper_than_runs_can_record(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        runtime = Runtime(client)
        assert await runtime.publish(event(1, orjson.loads("[" * 99 + "]" * 99)))
        with pytest.raises(InvalidOptionError, match="more than 100 levels"):
            await runtime.publish(event(2, orjson.loads("[" * 101 + "]" * 101)))
        run = await runtime.start(make("do: [{w: {wait: PT1S}}]"))
        await run.publish(event(1, orjson.loads("[" * 99 + "]" * 99)))
        with pytest.raises(InvalidOptionError, match="more than 100 levels"):
            await run.publish(event(2, orjson.loads("[" * 101 + "]" * 101)))
        with pytest.raises(PayloadEncodeError):
            await run.publish(event(3, object()))


async def test_an_output_that_cannot_be_recorded_is_an_error(sqlite_url: str) -> None:
    text = "do: [{a: {set: {v: 1}}}, {l: {for: {in: '[range(210)]'}, do: [{s: {set: {v: '${ . }'}}}]}}]"
    with pytest.raises(FaultedError, match="cannot be recorded"):
        await output(text, sqlite_url)


DEEP = "{l: {for: {in: '[range(210)]'}, do: [{s: {set: {v: '${ . }'}}}]}}"


@pytest.mark.parametrize(
    "task",
    [
        "{call: http, with: {method: post, endpoint: 'https://a.example/', body: '${ . }'}}",
        "{emit: {event: {with: {source: 'https://a.example/', type: t, data: '${ . }'}}}}",
        "{run: {workflow: {namespace: n, name: child, version: '0.1.0', input: {x: '${ . }'}}}}",
    ],
)
async def test_what_a_task_is_given_must_be_such_that_it_can_be_recorded(task: str, sqlite_url: str) -> None:
    with pytest.raises(FaultedError, match="cannot be recorded") as raised:
        await output(f"do: [{DEEP}, {{c: {task}}}]", sqlite_url)
    assert raised.value.error["instance"] == "/do/1/c"
    caught = f"{{t: {{try: [{{c: {task}}}], catch: {{do: [{{k: {{set: {{v: 1}}}}}}]}}}}}}"
    assert await output(f"do: [{DEEP}, {caught}]", sqlite_url) == {"v": 1}


async def test_subscriptions_of_a_run_that_is_open_stay(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make("do: [{l: {listen: {to: {one: {with: {type: t}}}}}}]"))
        await listens(run)
        ((first,),) = await env.client.runtime.read(
            fetch, "SELECT first_run_id FROM serverless_subscriptions", ()
        )
        # A router found it closed, and a reset has opened it since.
        await env.client.runtime.journal.apply(DropSubscriptions([first]))
        assert await subscriptions(env.client) == 1
        await run.handle.terminate()
        await env.client.runtime.journal.apply(DropSubscriptions([first]))
        assert await subscriptions(env.client) == 0


async def test_each_reason_why_an_input_does_not_fit_is_told(sqlite_url: str) -> None:
    text = """input: {schema: {document: {required: [a], properties: {b: {type: integer}, c: {maxLength: 1}}}}}
do: [{a: {set: {v: 1}}}]"""
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        with pytest.raises(FaultedError) as raised:
            await runtime.start(make(text), {"b": "x", "c": "xy"}, check=True)
        assert sorted(raised.value.error["detail"].removeprefix("the input of the workflow ").split(";")) == [
            ' at /b: "x" is not of type "integer"',
            ' at /c: "xy" is longer than 1 character',
            'does not fit its schema: "a" is a required property',
        ]
