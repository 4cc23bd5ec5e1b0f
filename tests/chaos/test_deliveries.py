"""Deliveries while those who deliver are killed, and their endpoint fails in every way: nothing is lost."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from tests.chaos.control import process
from tests.endpoint import Request, certificate, endpoint

from outlast import AlertPolicy, Client, StartOptions, Worker, workflow
from outlast.alerts import Webhook
from outlast.testing import check_database
from outlast_store.database.sql_text import fetch

PATIENCE_S = 120
DELIVERERS = 2
WRONG = [
    "500",
    "hang",
    "301 location: /elsewhere\r\n",
    "close",
    "garbage",
    "drip",
    "flood",
    "429 retry-after: 1\r\n",
]
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


@workflow.defn
async def waiting() -> None:
    """Nobody runs it."""


def deliver(url: str, to: str, ca_file: str) -> None:
    """Be a watchdog that serves a channel, and nothing else."""
    os.environ["ONCALL_SECRET"] = SECRET

    async def main() -> None:
        oncall = Webhook(to, secret_env="ONCALL_SECRET", timeout=1, allow_private=True, ca_file=ca_file)
        async with Client.connect(url) as client:
            worker = Worker(
                client,
                task_queue=(),
                alert_channels={"oncall": oncall},
                lease_duration=2,
                watchdog_interval=0.05,
            )
            async with worker:
                await asyncio.Event().wait()

    asyncio.run(main())


async def undelivered(client: Client) -> int:
    """How many alerts lie ahead, and how many deliveries are not through."""
    with client.runtime.database.reader() as connection:
        armed: int = fetch(connection, "SELECT count(*) FROM alert_timers")[0][0]
        text = (
            "SELECT count(*) FROM workflow_runs WHERE workflow_type = 'outlast.deliver' AND closed_at IS NULL"
        )
        going: int = fetch(connection, text)[0][0]
    return armed + going


async def test_whatever_fails_each_alert_is_delivered_under_one_id(shared_url: str, tmp_path: Path) -> None:
    trusted, context = certificate(tmp_path, "127.0.0.1")
    rng = random.Random(7)
    killed = 0
    async with Client.connect(shared_url) as client, endpoint(*WRONG, "200", context=context) as there:
        to = there.url("https")
        deliverers = [process(deliver, shared_url, to, str(trusted)) for _ in range(DELIVERERS)]
        try:
            for number in range(20):
                policy = AlertPolicy(after=[1 + number / 5, 2 + number / 5], channels=["oncall"])
                await client.start(
                    waiting, id=f"w-{number}", task_queue="nobody", options=StartOptions(alerts=policy)
                )
            async with asyncio.timeout(PATIENCE_S):
                while await undelivered(client) or killed < 3:
                    if killed < 3 and len(there.requests) > 3 * killed:
                        place = rng.randrange(DELIVERERS)
                        deliverers[place].kill()
                        await asyncio.to_thread(deliverers[place].join)
                        deliverers[place] = process(deliver, shared_url, to, str(trusted))
                        killed += 1
                    await asyncio.sleep(0.1)
        finally:
            for one in deliverers:
                one.kill()
                await asyncio.to_thread(one.join)
        with client.runtime.database.reader() as connection:
            assert check_database(connection) == []
        alerts = {one.alert_id: one for one in (await client.alerts.list(limit=1000)).alerts}
    assert len(alerts) == 40
    assert there.connections > len(WRONG)
    for request in there.requests:
        assert Verifier(SECRET).verify(request.body, request.headers)["alerts"] == request.alerts
    taken = by_alert(there.taken)
    assert taken.keys() == alerts.keys()
    assert {len(ids) for ids in taken.values()} == {1}, "what is sent again has the same id"
    for alert in alerts.values():
        [delivery] = alert.deliveries
        assert delivery.status == "completed"
        assert str(delivery.workflow_id).rpartition("/")[2] in taken[alert.alert_id]
    # Repeats of a request say the same.
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    for request in there.requests:
        bodies[request.headers["webhook-id"]].add(request.body)
    assert {len(found) for found in bodies.values()} == {1}


def by_alert(requests: list[Request]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for request in requests:
        for alert in request.alerts:
            found[alert["alert_id"]].add(request.headers["webhook-id"])
    return found


@pytest.mark.parametrize(
    ("count", "most"),
    [(1_000, 15), pytest.param(10_000, 120, marks=pytest.mark.nightly)],
    ids=["some", "many"],
)
async def test_a_storm_of_alerts_is_few_requests(
    shared_url: str, tmp_path: Path, count: int, most: int
) -> None:
    trusted, context = certificate(tmp_path, "127.0.0.1")
    async with Client.connect(shared_url) as client, endpoint("200", context=context) as there:
        storm = datetime.now(UTC) + timedelta(seconds=10 if count < 10_000 else 60)
        options = StartOptions(alerts=AlertPolicy(at_instant=storm, channels=["oncall"]))
        starts = [
            client.start(waiting, id=f"w-{number}", task_queue="nobody", options=options)
            for number in range(count)
        ]
        await asyncio.gather(*starts)
        deliverer = process(deliver, shared_url, there.url("https"), str(trusted))
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await undelivered(client):  # noqa: ASYNC110 # other processes deliver
                    await asyncio.sleep(0.1)
        finally:
            deliverer.kill()
            await asyncio.to_thread(deliverer.join)
        assert len(by_alert(there.taken)) == count
        assert len(there.requests) <= most
