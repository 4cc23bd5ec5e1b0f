"""Deliveries: started in the transaction that fires the alerts, a hundred alerts each, and shown with their alerts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ActivityOptions, AlertPolicy, ApplicationError, StartOptions, workflow
from outlast.alerts import Alert
from outlast.errors import InvalidOptionError, WorkflowNotFoundError
from outlast.testing import TestEnvironment, check_database
from outlast_store.database.sql_text import fetch


@workflow.defn
async def waiting() -> None:
    await workflow.sleep(1000)


async def deliveries(env: TestEnvironment) -> dict[str, list[list[str]]]:
    """The alerts of each delivery, by channel."""
    text = (
        "SELECT e.payload FROM workflow_runs r JOIN history_events e ON e.run_id = r.run_id AND e.seq = 1 "
        "WHERE r.workflow_type = 'outlast.deliver' ORDER BY r.run_id"
    )
    found: dict[str, list[list[str]]] = {}
    for (payload,) in await env.client.runtime.read(fetch, text, ()):
        channel, alert_ids = orjson.loads(payload)["input"]
        found.setdefault(channel, []).append(alert_ids)
    return found


async def test_each_channel_gets_what_its_policy_names(engine: MakeEnvironment) -> None:
    async with engine(workflows=[waiting]) as env:
        policy = AlertPolicy(at=[0.5, 1], channels=["oncall", "pager"])
        handle = await env.client.start(
            waiting, id="w", options=StartOptions(execution_timeout=100, alerts=policy)
        )
        await env.sleep(60)
        [alert] = (await handle.describe()).alerts.fired
        assert [one.channel for one in alert.deliveries] == ["oncall", "pager"]
        assert await deliveries(env) == {"oncall": [[alert.alert_id]], "pager": [[alert.alert_id]]}
        for one in alert.deliveries:
            assert one.workflow_id is not None
            assert one.status == "pending"
            assert one.delivered_at is None
            found = await env.client.handle(one.workflow_id).describe()
            assert found.workflow_type == "outlast.deliver"
            assert found.run.task_queue == f"outlast.alerts.{one.channel}"
            assert found.execution_timeout_seconds == 7 * 86_400
            assert found.run.priority == 0
        await env.sleep(60)
        # Nobody serves the channel.
        found = await env.client.handle(str(alert.deliveries[0].workflow_id)).describe()
        assert found.attention == ("no_poller",)
        assert (await handle.describe()).run.status == "timed_out"
        ended = (await env.client.alerts.list(workflow_id="w")).alerts[0]
        assert ended.mark == "100%"
        assert (await deliveries(env))["pager"] == [[alert.alert_id], [ended.alert_id]]


async def test_alerts_of_one_commit_share_deliveries_of_a_hundred(engine: MakeEnvironment) -> None:
    async with engine(workflows=[waiting]) as env:
        policy = AlertPolicy(at_instant=env.now() + timedelta(seconds=100), channels=["oncall"])
        for number in range(250):
            await env.client.start(
                "nobody", id=f"w-{number}", task_queue="nowhere", options=StartOptions(alerts=policy)
            )
        await env.sleep(200)
        found = (await deliveries(env))["oncall"]
        assert max(map(len, found)) == 100
        assert len(found) <= 4
        delivered = [alert_id for one in found for alert_id in one]
        assert sorted(delivered) == sorted(
            one.alert_id for one in (await env.client.alerts.list(limit=1000)).alerts
        )
        assert len(delivered) == 250


async def test_what_was_fired_before_is_not_delivered_again(engine: MakeEnvironment) -> None:
    async with engine(workflows=[waiting]) as env:
        policy = AlertPolicy(at=[1], channels=["oncall"], kinds=["execution"])
        handle = await env.client.start(
            waiting, id="w", options=StartOptions(execution_timeout=100, alerts=policy)
        )
        await env.sleep(150)
        again = await handle.reset("first-workflow-task", execution_timeout=100)
        await env.sleep(150)
        assert (await again.describe()).run.status == "timed_out"
        assert len((await env.client.alerts.list()).alerts) == 1
        assert len((await deliveries(env))["oncall"]) == 1


async def test_an_alert_forgets_a_delivery_that_is_deleted(engine: MakeEnvironment) -> None:
    async with engine(workflows=[waiting]) as env:
        policy = AlertPolicy(after=[10], channels=["oncall", "pager"])
        handle = await env.client.start(waiting, id="w", options=StartOptions(alerts=policy))
        await env.sleep(20)
        [alert] = (await handle.describe()).alerts.fired
        assert alert.deliveries[0].workflow_id is not None
        delivery = env.client.handle(alert.deliveries[0].workflow_id)
        await delivery.terminate("not wanted")
        await env.client.delete(delivery.workflow_id)
        [alert] = (await handle.describe()).alerts.fired
        gone, kept = alert.deliveries
        assert (gone.channel, gone.workflow_id, gone.status) == ("oncall", None, None)
        assert (kept.channel, kept.status) == ("pager", "pending")
        assert await env.client.runtime.read(check_database) == []


async def test_a_function_takes_alerts_until_it_has_taken_them(engine: MakeEnvironment) -> None:
    taken: list[list[Alert]] = []
    tries = 0

    async def take(alerts: list[Alert]) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("away")
        taken.append(alerts)

    async with engine(workflows=[waiting], alert_channels={"oncall": take}) as env:
        policy = AlertPolicy(after=[10], channels=["oncall"])
        handle = await env.client.start(waiting, id="w", options=StartOptions(alerts=policy))
        await env.sleep(60)
        [alert] = (await handle.describe()).alerts.fired
        assert [[one.alert_id for one in alerts] for alerts in taken] == [[alert.alert_id]]
        assert taken[0][0].text == "it has taken 10 s"
        [delivery] = alert.deliveries
        assert delivery.status == "completed"
        assert delivery.delivered_at is not None
        # The second and the third attempt came after 5 s and 10 s, give or take a fifth.
        assert 12 <= (delivery.delivered_at - alert.fired_at).total_seconds() <= 18
        assert tries == 3


async def test_what_is_refused_for_good_is_delivered_by_a_reset(engine: MakeEnvironment) -> None:
    taken: list[str] = []
    away = True

    async def take(alerts: list[Alert]) -> None:
        if away:
            raise ApplicationError("gone", non_retryable=True)
        taken.extend(one.alert_id for one in alerts)

    async with engine(workflows=[waiting], alert_channels={"oncall": take}) as env:
        policy = AlertPolicy(after=[10], channels=["oncall"])
        await env.client.start(waiting, id="w", options=StartOptions(alerts=policy))
        await env.sleep(20)
        failed = [run async for run in env.client.list(workflow_type="outlast.deliver", status="failed")]
        assert len(failed) == 1
        away = False
        again = await env.client.handle(failed[0].workflow_id).reset("last-successful")
        await again.result()
        assert taken == [one.alert_id for one in (await env.client.alerts.list()).alerts]


async def test_the_defaults_of_a_worker_are_not_those_of_deliveries(engine: MakeEnvironment) -> None:
    taken: list[str] = []

    async def take(alerts: list[Alert]) -> None:
        taken.extend(one.workflow_id for one in alerts)

    defaults = ActivityOptions(
        task_queue="elsewhere", heartbeat_timeout=1, alerts=AlertPolicy(after=[1], channels=["oncall"])
    )
    async with engine(
        workflows=[waiting], alert_channels={"oncall": take}, default_activity_options=defaults
    ) as env:
        workflow_id = await env.client.alerts.test("oncall")
        await env.client.handle(workflow_id).result()
        assert taken == [workflow_id]
        assert not (await env.client.alerts.list()).alerts


async def test_deliveries_are_deleted_a_week_after_they_have_completed(engine: MakeEnvironment) -> None:
    async def take(alerts: list[Alert]) -> None:
        pass

    async with engine(workflows=[waiting], alert_channels={"oncall": take}) as env:
        delivered = await env.client.alerts.test("oncall")
        await env.client.handle(delivered).result()
        unserved = await env.client.alerts.test("pager")
        await env.client.handle(unserved).terminate("not wanted")
        await env.sleep(6.9 * 86_400)
        assert (await env.client.handle(delivered).describe()).run.status == "completed"
        await env.sleep(0.2 * 86_400)
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle(delivered).describe()
        assert (await env.client.handle(unserved).describe()).run.status == "terminated"


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ([], "must be a dict"),
        ({"on call": None}, "letters, digits"),
        ({"oncall": 5}, "must be a Webhook or an async def"),
        ({"oncall": print}, "must be a Webhook or an async def"),
    ],
)
async def test_what_is_no_channel_is_refused(in_memory: MakeEnvironment, channels: Any, message: str) -> None:
    async with in_memory(workflows=[]) as env:
        with pytest.raises(InvalidOptionError, match=message):
            env.new_worker(workflows=[waiting], alert_channels=channels)
        with pytest.raises(InvalidOptionError, match="letters, digits"):
            await env.client.alerts.test("on call")


async def test_deliveries_are_listed_where_they_are_asked_for(engine: MakeEnvironment) -> None:
    async def take(alerts: list[Alert]) -> None:
        raise ApplicationError("gone", non_retryable=True)

    async with engine(workflows=[waiting], alert_channels={"oncall": take}) as env:
        await env.client.start(waiting, id="w")
        delivery = await env.client.alerts.test("oncall")
        unserved = await env.client.alerts.test("pager")
        await env.sleep(100)

        async def listed(**filters: Any) -> set[str]:
            return {run.workflow_id async for run in env.client.list(**filters)}

        assert await listed() == await listed(status=["running", "failed", "pending"]) == {"w"}
        assert await env.client.count() == 1
        assert await listed(workflow_type="outlast.deliver") == {delivery, unserved}
        assert await listed(workflow_type="outlast.deliver", status="failed") == {delivery}
        assert await listed(id_prefix="outlast.deliver/") == {delivery, unserved}
        assert await listed(workflow_id=delivery) == {delivery}
        # What nobody serves is seen.
        assert await listed(attention=True) == {unserved}
