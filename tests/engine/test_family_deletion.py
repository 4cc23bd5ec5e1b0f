"""Deleting workflows with their children: all of a family or nothing of it, whatever its shape, crashes included."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.conftest import MakeEnvironment

from outlast import workflow
from outlast.errors import DeleteRefusedError, RunNotFoundError, WorkflowNotFoundError
from outlast.testing import TestEnvironment, check_database
from outlast.testing.clock import VirtualLoop
from outlast.visibility.filters import Filters
from outlast_store.database.sql_text import fetch
from outlast_store.transitions.deletion import DeleteChainStep

LONG = 1_000_000.0


@dataclass(frozen=True)
class Node:
    """A workflow of a family."""

    stays: bool
    policy: str
    runs: int
    children: tuple[Node, ...]

    def spec(self) -> dict[str, Any]:
        return {
            "stays": self.stays,
            "policy": self.policy,
            "runs": self.runs,
            "children": [child.spec() for child in self.children],
        }


@workflow.defn
async def node(spec: dict[str, Any], run: int = 1) -> None:
    """Start the children, some of them in each run of the chain, then end or stay."""
    info = workflow.info()
    for number, child in enumerate(spec["children"]):
        if number % spec["runs"] == run - 1:
            child_id = f"{info.workflow_id}.{number}"
            _ = workflow.start_child(node, child, id=child_id, parent_close_policy=child["policy"])
    if run < spec["runs"]:
        workflow.continue_as_new(spec, run + 1)
    if spec["stays"]:
        await asyncio.sleep(LONG)


def nodes(children: st.SearchStrategy[tuple[Node, ...]]) -> st.SearchStrategy[Node]:
    policies = st.sampled_from(["terminate", "abandon", "abandon"])
    return st.builds(Node, st.booleans(), policies, st.integers(1, 3), children)


trees = st.recursive(
    nodes(st.just(())), lambda inner: nodes(st.lists(inner, max_size=3).map(tuple)), max_leaves=7
)


def all_rows(env: TestEnvironment) -> dict[str, int]:
    with env.client.runtime.database.reader() as connection:
        assert check_database(connection, deleting=True) == []
        tables = ("workflow_runs", "history_events", "workflow_instances", "workflow_failures", "timers")
        return {table: fetch(connection, f"SELECT count(*) FROM {table}")[0][0] for table in tables}


class Interrupted(Exception):
    pass


async def delete_with_interruptions(env: TestEnvironment, every: int) -> int:
    """Delete the root; the process dies after each so many steps, and another one goes on."""
    journal = env.client.runtime.journal
    right, deaths = journal.apply, 0
    for _ in range(1000):
        steps = 0

        async def apply(change: Any) -> Any:
            nonlocal steps
            if isinstance(change, DeleteChainStep):
                steps += 1
                if steps > every:
                    raise Interrupted
            return await right(change)

        journal.apply = apply  # type: ignore[method-assign]
        try:
            await env.client.delete("root", terminate=True, children=True)
        except Interrupted:
            deaths += 1
            continue
        finally:
            journal.apply = right  # type: ignore[method-assign]
        return deaths
    raise AssertionError("it never ends")


async def live(tree: Node, every: int) -> None:
    async with TestEnvironment(workflows=[node]) as env:
        client = env.client
        bystander = await client.start(node, Node(False, "abandon", 1, ()).spec(), id="root2")
        await bystander.result()
        alone = all_rows(env)
        await client.start(node, tree.spec(), id="root")
        await env.sleep(5)
        opened = {run.workflow_id async for run in client.list(open=True)}
        before = all_rows(env)
        if opened:
            with pytest.raises(DeleteRefusedError) as refused:
                await client.delete("root", children=True)
            assert any(repr(workflow_id) in str(refused.value) for workflow_id in opened)
            assert all_rows(env) == before, "a refused deletion deletes nothing"
        await delete_with_interruptions(env, every)
        assert all_rows(env) == alone
        with pytest.raises(WorkflowNotFoundError):
            await client.delete("root", children=True)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(trees, st.integers(1, 6))
def test_a_family_of_any_shape_is_deleted_whole_or_not_at_all(tree: Node, every: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(live(tree, every))


async def test_children_stay_where_nobody_asks_for_their_deletion(engine: MakeEnvironment) -> None:
    family = Node(False, "abandon", 1, (Node(False, "abandon", 1, ()),))
    async with engine(workflows=[node]) as env:
        await env.client.start(node, family.spec(), id="root")
        await env.sleep(5)
        assert await env.client.delete("root") == 1
        assert (await env.client.describe("root.0")).run.status == "completed"


async def test_a_family_is_deleted_in_bulk(engine: MakeEnvironment) -> None:
    family = Node(False, "abandon", 2, (Node(False, "abandon", 1, ()), Node(True, "abandon", 1, ())))
    async with engine(workflows=[node]) as env:
        for number in range(3):
            await env.client.start(node, family.spec(), id=f"root-{number}")
        await env.sleep(5)
        roots: Filters = {"id_prefix": "root-", "has_parent": False}
        outcomes = [one async for one in env.client.bulk(**roots).delete(children=True)]
        assert [type(one.error) for one in outcomes] == [DeleteRefusedError] * 3
        assert "root-2.1" in str(outcomes[0].error)
        outcomes = [one async for one in env.client.bulk(**roots).delete(terminate=True, children=True)]
        assert all(one.done for one in outcomes)
        assert await env.client.count() == 0


async def test_a_child_whose_id_was_used_again_by_somebody_else_is_not_of_the_family(
    engine: MakeEnvironment,
) -> None:
    family = Node(False, "abandon", 1, (Node(False, "abandon", 1, ()),))
    async with engine(workflows=[node]) as env:
        await env.client.start(node, family.spec(), id="root")
        await env.sleep(5)
        again = await env.client.start(node, Node(True, "abandon", 1, ()).spec(), id="root.0")
        child = [run async for run in env.client.list(workflow_id="root.0", open=False)]
        assert await env.client.delete("root", children=True) == 2
        assert (await again.describe()).run.status == "running"
        with pytest.raises(RunNotFoundError):
            await env.client.describe("root.0", child[0].run_id)
