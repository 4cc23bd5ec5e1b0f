"""Rules of operators: alerts of workflows that nobody gave them, added by the watchdogs, once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import AlertPolicy, StartOptions, workflow
from outlast.errors import InvalidOptionError
from outlast.testing import TestEnvironment, check_database
from outlast.watchdog import AlertRule, TaskWatchdog
from outlast_store.alerts.channels import task_queue_of
from outlast_store.journal.batch import BaseChange
from outlast_watchdog import rules as rules_module


@workflow.defn
class Order:
    @workflow.run
    async def run(self, seconds: float, left: int = 0) -> None:
        await workflow.sleep(seconds)
        if left:
            workflow.continue_as_new(seconds, left - 1)


@workflow.defn
async def other(seconds: float) -> None:
    await workflow.sleep(seconds)


WORKFLOWS = [Order, other]
EARLY = AlertRule(workflow_type="Ord*", policy=AlertPolicy(at=[0.5], channels=["oncall"]))


def watching(env: TestEnvironment, *rules: AlertRule) -> TaskWatchdog:
    return TaskWatchdog(env.client, rules=rules)


async def marks(env: TestEnvironment, workflow_id: str) -> tuple[list[str], list[str]]:
    """What is armed, and what was fired."""
    found = (await env.client.handle(workflow_id).describe()).alerts
    return [one.mark for one in found.armed], [one.mark for one in found.fired]


async def test_a_rule_arms_what_it_matches_and_several_watchdogs_do_so_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        own = StartOptions(execution_timeout=100).with_alerts(0.8)
        await env.client.start(Order.run, 500, id="order", options=own)
        await env.client.start(other, 500, id="other", options=StartOptions(execution_timeout=100))
        plain = await env.client.start(
            Order.run, 500, id="plain", options=StartOptions(execution_timeout=100)
        )
        first, second = watching(env, EARLY), watching(env, EARLY)
        assert (await first.run_pass()).counts == {"alerts_added": 2}
        assert (await second.run_pass()).counts == {}
        assert await marks(env, "order") == (["50%", "80%"], [])
        assert await marks(env, "plain") == (["50%"], [])
        assert await marks(env, "other") == ([], [])
        await env.sleep(90)
        assert await marks(env, "order") == ([], ["80%", "50%"])
        [alert] = (await plain.describe()).alerts.fired
        assert [one.channel for one in alert.deliveries] == ["oncall"]
        assert (await first.run_pass()).counts == {}
        # The code of a run that got alerts goes on as if it had not.
        await env.sleep(20)
        assert (await plain.describe()).run.status == "timed_out"


async def test_a_run_that_got_alerts_completes_and_hands_them_on(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        rule = AlertRule(workflow_type="Order", policy=AlertPolicy(after=[25]))
        handle = await env.client.start(Order.run, 10, 2, id="w")
        assert (await watching(env, rule).run_pass()).counts == {"alerts_added": 1}
        # It counts from the begin of the chain, whose third run it is by then.
        await handle.result()
        assert await marks(env, "w") == ([], ["+25s"])


async def test_what_is_late_already_is_told_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await env.client.start(Order.run, 500, id="w", options=StartOptions(execution_timeout=100))
        await env.sleep(70)
        await watching(env, EARLY).run_pass()
        await env.sleep(5)
        assert await marks(env, "w") == ([], ["50%"])


async def test_a_deadline_that_is_set_later_has_the_marks_of_rules(engine: MakeEnvironment) -> None:
    @workflow.defn
    async def limiting() -> None:
        await workflow.sleep(10)
        workflow.limit(100)
        await workflow.sleep(500)

    async with engine(workflows=[limiting]) as env:
        await env.client.start(limiting, id="w")
        rule = AlertRule(task_queue="def*", policy=AlertPolicy(at=[0.5], kinds=["run"]))
        assert (await watching(env, rule).run_pass()).counts == {"alerts_added": 1}
        assert await marks(env, "w") == ([], [])
        await env.sleep(20)
        assert await marks(env, "w") == (["50%"], [])


async def test_the_walk_goes_on_where_it_was_and_looks_back(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_module, "RUNS_IN_A_READ", 2)
    monkeypatch.setattr(rules_module, "READS_IN_A_PASS", 1)
    async with engine(workflows=WORKFLOWS) as env:
        for number in range(5):
            await env.client.start(Order.run, 9_000, id=f"w-{number}")
        rule = AlertRule(workflow_type="*", policy=AlertPolicy(after=[5_000]))
        watchdog = watching(env, rule)
        reports = [await watchdog.run_pass(100) for _ in range(4)]
        assert [one.counts.get("alerts_added", 0) for one in reports] == [2, 2, 1, 0]
        assert [one.reached_limit for one in reports] == [True, True, False, True]
        # Whole passes are for `--once`.
        await env.client.start(Order.run, 9_000, id="w-5")
        assert (await watchdog.run_pass()).counts == {"alerts_added": 1}
        # A start that is committed late has an id of before.
        text = "UPDATE workflow_runs SET alerts = NULL WHERE workflow_id = 'w-5'"
        await env.sleep(30)
        journal = env.client.runtime.journal
        await journal.apply(_Forget(text))
        assert (await watchdog.run_pass()).counts == {}
        await env.sleep(61)
        assert (await watchdog.run_pass()).counts == {"alerts_added": 1}


class _Forget(BaseChange):
    def __init__(self, text: str) -> None:
        self.text = text

    def apply(self, batch: Any) -> None:
        batch.execute(self.text, ())
        batch.execute(
            "DELETE FROM alert_timers WHERE run_id NOT IN (SELECT run_id FROM workflow_runs WHERE alerts IS NOT NULL)",
            (),
        )


async def test_deliveries_have_no_alerts(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await env.client.alerts.test("oncall")
        rule = AlertRule(
            workflow_type="*", task_queue="*", policy=AlertPolicy(after=[1], channels=["oncall"])
        )
        assert rule.matches("x", task_queue_of("oncall"))
        assert (await watching(env, rule).run_pass()).counts == {}
        assert await env.client.runtime.read(check_database) == []


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"policy": AlertPolicy(after=[1])}, "workflow_type", "names workflow_type or task_queue"),
        ({"policy": 5, "workflow_type": "*"}, "alerts", "must be an AlertPolicy"),
        ({"policy": AlertPolicy(after=[1]), "workflow_type": ""}, "workflow_type", "must not be empty"),
        (
            {"policy": AlertPolicy(at=[0.5], kinds=["start_to_close"]), "task_queue": "*"},
            "kinds",
            "workflows",
        ),
        ({"policy": AlertPolicy(after=[1]), "type": "*"}, "type", "type"),
    ],
)
def test_what_is_no_rule_is_refused(given: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        AlertRule(**given)
    assert caught.value.field == field


def test_only_the_asterisk_means_anything() -> None:
    policy = AlertPolicy(after=[1])
    assert AlertRule(workflow_type="a[b]?*", policy=policy).matches("a[b]?c", "q")
    assert not AlertRule(workflow_type="a[b]?*", policy=policy).matches("abxc", "q")
    assert not AlertRule(workflow_type="a*", task_queue="q", policy=policy).matches("ab", "p")
    assert not AlertRule(workflow_type="*", policy=policy).matches("outlast.deliver", "q")


async def test_a_watchdog_has_rules_that_are_rules(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="must be AlertRules, not dict"):
            TaskWatchdog(env.client, rules=[{}])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidOptionError, match="at most 20 rules, not 21"):
            TaskWatchdog(env.client, rules=[EARLY] * 21)
