"""The examples run as they stand, and do what they say, in virtual time where they wait."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from zoneinfo import ZoneInfo

import pytest
from examples import (
    agent_loop,
    alert_webhook,
    approval,
    approval_webhook,
    fan_out_import,
    nightly_import,
    nightly_report,
    order_saga,
    polling,
)
from standardwebhooks.webhooks import Webhook as Verifier

from outlast import (
    Rate,
    UpdateRejectedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowFailedError,
    activity,
)
from outlast.blocking import Client
from outlast.testing import TestEnvironment, VirtualLoop

ROOT = Path(__file__).parents[2]
PATHS = sorted((ROOT / "examples").glob("[!_]*.py"))
# tests/docs/test_quickstart.py runs the quickstart, and kills it; the nightly import runs until it is stopped.
NAMES = [path.stem for path in PATHS if path.stem not in ("quickstart", "nightly_import")]
SAID = {
    "alert_webhook": "told: load-1: it has taken 0.5 s\n7 rows",
    "agent_loop": "who was Ada: 3 pages of the archive, 3 pages of the library, 3 pages of the web",
    "approval": "expired after 3 mails",
    "approval_inbox": "left: 2",
    "approval_webhook": "and once more with 200",
    "codecs": "Ada: secret",
    "token_stream": "event: end",
    "nightly_report": "report-us 0 2 * * * (America/New_York)",
    "fan_out_import": "Report(rows=19000, failed=[13])",
    "order_dag": "compensated: order-3",
    "order_saga": "released chair",
    "api_keys": "no key was called more than 5 times in any half second",
    "tenants": "the small tenant was done among the first 12 of 44",
    "order_outbox": "1 order, 1 workflow",
    "transfer": "after 2 tries Ada has 7500 cents and Bob 2500",
    "pages_dag": "7 fruits on fruit.example\n0 fruits on empty.example\ncritical path: 70 s",
    "release_dag": "approved by ada after 3 looks at the tests\napp:7 is everywhere\nif it is rejected",
    "late_order": "sent by courier\ntold: 10% of its execution timeout",
    "polling": "asked 8 times in 3 runs",
    "trial_fork": "the bill adds up to 7, the order was fetched 1 time",
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture(params=[1000, 0], ids=["cached", "always_replay"])
def max_cached(request: pytest.FixtureRequest) -> int:
    cached: int = request.param
    return cached


def environment(example: Any, max_cached: int) -> TestEnvironment:
    return TestEnvironment(
        workflows=example.WORKFLOWS, activities=example.ACTIVITIES, max_cached_workflows=max_cached
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_as_it_stands(name: str) -> None:
    command = [sys.executable, "-W", "error", "-m", f"examples.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout


def test_the_page_lists_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert [path.stem for path in PATHS if f"examples/{path.stem}.py" not in page] == []


def test_the_receiver_of_alerts_refuses_what_others_send_and_takes_each_delivery_once() -> None:
    body = b'{"alerts": [{"workflow_id": "w", "text": "late"}]}'

    def posted(endpoint: str, secret: str, delivery: str, sent: datetime) -> int:
        headers = {
            "webhook-id": delivery,
            "webhook-timestamp": str(int(sent.timestamp())),
            "webhook-signature": Verifier(secret).sign(delivery, sent, body.decode()),
        }
        try:
            with urlopen(Request(endpoint, body, headers)) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code

    now = datetime.now(UTC)
    with ThreadingHTTPServer(("127.0.0.1", 0), alert_webhook.Receiver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        post = partial(posted, f"http://127.0.0.1:{server.server_port}/")
        assert post("whsec_" + "c2VjcmV0" * 4, "d-1", now) == 401
        assert post(alert_webhook.SECRET, "d-1", now - timedelta(minutes=6)) == 401
        assert [post(alert_webhook.SECRET, "d-1", now) for _ in range(2)] == [204, 204]
        server.shutdown()
        thread.join()
    assert alert_webhook.taken.get_nowait() == "w: late"
    assert alert_webhook.taken.empty()


async def test_a_saga_undoes_in_reverse_what_it_did(max_cached: int) -> None:
    order_saga.ledger.clear()
    order = order_saga.Order(id="o-2", item="chair", amount=80, address="")
    async with environment(order_saga, max_cached) as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(order_saga.PlaceOrder.run, order, id="order")
    assert order_saga.ledger == [
        "reserved chair",
        "charged 80 for o-2",
        "refunded 80 for o-2",
        "released chair",
    ]


async def test_a_saga_that_is_cancelled_undoes_too(max_cached: int) -> None:
    order_saga.ledger.clear()
    order = order_saga.Order(id="o-3", item="lamp", amount=30, address="here")
    async with environment(order_saga, max_cached) as env:
        handle = await env.client.start(order_saga.PlaceOrder.run, order, id="order")
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
    done = [line for line in order_saga.ledger if line.startswith(("reserved", "charged", "shipped"))]
    undone = [line for line in order_saga.ledger if line.startswith(("released", "refunded"))]
    assert "shipped o-3" not in done
    assert len(undone) <= len(done)


async def test_an_approval_reminds_once_and_expires(max_cached: int) -> None:
    approval.sent.clear()
    async with environment(approval, max_cached) as env:
        began = env.now()
        assert await env.client.execute(approval.Approval.run, "a yacht", "ada", 86_400, id="e") == "expired"
        assert (env.now() - began).days == 2
    assert approval.sent == ["ada: please look at a yacht", "ada: a yacht still waits for you"]


async def test_an_approval_hears_a_person(max_cached: int) -> None:
    async with environment(approval, max_cached) as env:
        handle = await env.client.start(approval.Approval.run, "a chair", "ada", 86_400, id="e")
        await env.sleep(days=1.5)
        assert await handle.query(approval.Approval.status) == "a chair: waiting"
        await handle.signal(approval.Approval.reject, "ada", "too dear")
        assert await handle.result() == "rejected by ada: too dear"


async def test_a_webhook_may_come_early_late_and_twice(max_cached: int) -> None:
    yes = {"decision": "approve", "by": "ada"}
    async with environment(approval_webhook, max_cached) as env:
        handle = await env.client.start(approval_webhook.expense, "a lamp", id="e")
        _, first = await approval_webhook.service.asked.get()
        await env.sleep(days=1.5)
        question, second = await approval_webhook.service.asked.get()
        assert question == "May we buy a lamp?"
        assert await approval_webhook.webhook(env.client, first, yes) == 410
        assert await approval_webhook.webhook(env.client, second, {**yes, "decision": "reject"}) == 200
        assert await handle.result() == "a lamp: rejected by ada"
        assert await approval_webhook.webhook(env.client, second, yes) == 200


async def test_an_import_reports_the_part_that_failed(max_cached: int) -> None:
    async with environment(fan_out_import, max_cached) as env:
        report = await env.client.execute(fan_out_import.import_file, "customers.csv", 5, id="i")
    assert report == fan_out_import.Report(rows=19_000, failed=[13])


async def test_an_agent_can_be_stopped(max_cached: int) -> None:
    async with environment(agent_loop, max_cached) as env:
        handle = await env.client.start(agent_loop.Agent.run, agent_loop.Memory(goal="all"), id="a")
        await handle.signal(agent_loop.Agent.stop)
        assert (await handle.result()).startswith("all:")


async def test_an_agent_stays_within_its_budget(max_cached: int) -> None:
    memory = agent_loop.Memory(goal="all", budget=25)
    async with environment(agent_loop, max_cached) as env:
        handle = await env.client.start(agent_loop.Agent.run, memory, id="a")
        assert await handle.result() == "all: out of budget"
        assert await handle.query(agent_loop.Agent.progress) == [
            "3 pages of the archive",
            "3 pages of the library",
            "3 pages of the web",
        ]


@pytest.mark.parametrize("consent", [True, False, None])
async def test_an_agent_asks_a_person_before_it_publishes(max_cached: int, consent: bool | None) -> None:
    async with environment(agent_loop, max_cached) as env:
        began = env.now()
        memory = agent_loop.Memory(goal="publish Ada")
        handle = await env.client.start(agent_loop.Agent.run, memory, id="a")
        await env.sleep(hours=1)
        assert await handle.query(agent_loop.Agent.asks) == (
            "publish 3 pages of the archive, 3 pages of the library, 3 pages of the web?"
        )
        if consent is not None:
            await handle.execute_update(agent_loop.Agent.decide, consent)
        done = await handle.result()
        assert done.endswith("published" if consent else "no consent to publish")
        assert (env.now() - began).days == (1 if consent is None else 0)
        with pytest.raises(WorkflowClosedError):
            await handle.execute_update(agent_loop.Agent.decide, True)


async def test_an_answer_that_nobody_asked_for_is_refused(max_cached: int) -> None:
    async with environment(agent_loop, max_cached) as env:
        handle = await env.client.start(agent_loop.Agent.run, agent_loop.Memory(goal="all"), id="a")
        with pytest.raises(UpdateRejectedError, match="nobody asked"):
            await handle.execute_update(agent_loop.Agent.decide, True)


async def test_polling_goes_on_for_months_with_short_histories(max_cached: int) -> None:
    polling.answers["report"] = 250
    async with environment(polling, max_cached) as env:
        began = env.now()
        handle = await env.client.start(polling.wait_for_job, polling.Poll("report", 86_400.0), id="p")
        assert await handle.result() == 251
        assert (env.now() - began).days == 250
        described = await handle.describe()
        assert described.run.run_number == 3
        assert described.run.history_length < 500


async def test_the_nightly_report_knows_the_night_before(max_cached: int) -> None:
    async with environment(nightly_report, max_cached) as env:
        applied = await env.client.schedules.apply(nightly_report.SCHEDULES)
        assert len(applied.created) == 3
        await env.sleep(days=2)
        runs = [run.workflow_id async for run in env.client.list(schedule="report-nz", order="oldest")]
        assert runs == ["report-nz-2026-01-01T13:00:00Z", "report-nz-2026-01-02T13:00:00Z"]
        first, second = [await env.client.handle(run).result() for run in runs]
        assert second.endswith(f"before {first.split()[2]}")


async def test_the_nightly_import_asks_for_each_key_no_faster_than_it_may(max_cached: int) -> None:
    asked: dict[str, list[float]] = {"key-1": [], "key-2": []}

    @activity.defn(name="fetch", queue="api", start_to_close_timeout=30)
    async def fetch(api_key: str, page: int) -> int:
        asked[api_key].append(env.now().timestamp())
        return await nightly_import.fetch(api_key, page)

    env = TestEnvironment(
        workflows=[nightly_import.import_orders], activities=[fetch], max_cached_workflows=max_cached
    )
    async with env:
        await env.client.queues.define("api", partition_rate=Rate(10, per=1))
        await env.client.schedules.apply(nightly_import.SCHEDULES)
        await env.sleep(hours=2)
        assert await env.client.handle("import-key-1-2026-01-01T01:00:00Z").result() == 270
        assert await env.client.count(status="completed") == 2
    for times in asked.values():
        assert len(times) == 40
        assert all(later - one >= 1 for one, later in zip(times, times[10:], strict=False))
    assert abs(asked["key-1"][-1] - asked["key-2"][-1]) < 1, "the keys do not wait for each other"


def test_the_nightly_import_runs_as_it_stands(tmp_path: Path) -> None:
    program = subprocess.Popen([sys.executable, str(ROOT / "examples" / "nightly_import.py")], cwd=tmp_path)
    try:
        with Client.connect(f"sqlite:///{tmp_path}/imports.db") as client:
            while len(list(client.schedules.list())) < 2:
                assert program.poll() is None
            described = client.schedules.handle("import-key-2").describe(next=1)
            assert described.next_slots[0].astimezone(ZoneInfo("Europe/Zurich")).hour == 2
            assert client.schedules.handle("import-key-1").trigger().result() == 270
    finally:
        program.terminate()
        program.wait()
