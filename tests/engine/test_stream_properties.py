"""Whatever a chain publishes, and whatever becomes of its runs: readers see what was written, in order, each once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import RetryPolicy, StartOptions, activity, workflow
from outlast.testing import TestEnvironment

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TWICE = RetryPolicy(initial_interval=0.01, max_attempts=2)

names = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.builds(lambda name: ["write", name], names),
    st.builds(lambda seconds: ["sleep", seconds], st.sampled_from([0.001, 1])),
    st.builds(
        lambda names, kind, fails: ["say", names, kind, fails],
        st.lists(names, max_size=4) | st.integers(95, 205).map(lambda count: ["a"] * count),
        st.sampled_from(["coroutine", "plain", "local"]),
        st.booleans(),
    ),
)
chains = st.lists(st.lists(steps, max_size=4), min_size=1, max_size=3)
readers = st.lists(st.tuples(names, st.integers(0, 8), st.sampled_from([0.0, 0.5, 3.0])), max_size=5)


def publish(run: int, place: int, names: list[str], fails: bool) -> None:
    attempt = activity.info().attempt
    for number, name in enumerate(names):
        activity.stream(name).write([run, place, attempt, number])
    if fails and attempt == 1:
        raise ConnectionError("once more")


@activity.defn(start_to_close_timeout=60, retry_policy=TWICE)
async def say(run: int, place: int, names: list[str], fails: bool) -> None:
    publish(run, place, names, fails)


@activity.defn(start_to_close_timeout=60, retry_policy=TWICE)
def say_plainly(run: int, place: int, names: list[str], fails: bool) -> None:
    publish(run, place, names, fails)


@workflow.defn
async def publishing(chain: list[Any], run: int, fails: bool) -> str:
    for place, (kind, what, *more) in enumerate(chain[run]):
        if kind == "write":
            workflow.stream(what).write([run, place])
        elif kind == "sleep":
            await workflow.sleep(what)
        elif more[0] == "local":
            await workflow.execute_local_activity(say, run, place, what, more[1])
        else:
            await (say if more[0] == "coroutine" else say_plainly)(run, place, what, more[1])
    if fails and workflow.info().attempt == 1:
        raise ValueError("once more")
    if run + 1 < len(chain):
        workflow.continue_as_new(chain, run + 1, False)
    return "published"


def written(chain: list[Any], runs: list[int]) -> dict[str, list[Any]]:
    """What is in each stream when these runs of a chain have been carried out, one after the other."""
    streams: dict[str, list[Any]] = defaultdict(list)
    for run in runs:
        for place, (kind, what, *more) in enumerate(chain[run]):
            if kind == "write":
                streams[what].append([run, place])
            for attempt in ((1, 2) if more[1] else (1,)) if kind == "say" else ():
                for number, name in enumerate(what):
                    streams[name].append([run, place, attempt, number])
    return streams


@SETTINGS
@given(chains, readers, st.booleans(), st.integers(0, 2), st.sampled_from([0, 1000]))
def test_readers_see_what_was_written(
    chain: list[Any], readers: list[tuple[str, int, float]], fails: bool, resets: int, cached: int
) -> None:
    options = StartOptions(retry_policy=RetryPolicy(initial_interval=1, max_attempts=2))
    runs = [*([0] if fails else []), *range(len(chain))]

    async def story() -> None:
        async with TestEnvironment(
            workflows=[publishing], activities=[say, say_plainly], max_cached_workflows=cached
        ) as env:
            handle = await env.client.start(publishing, chain, 0, fails, id="w", options=options)

            async def read(name: str, start: int, after: float) -> list[tuple[int, Any]]:
                await asyncio.sleep(after)
                return [(item.offset, item.value) async for item in handle.stream(name, start=start)]

            def expected(name: str, start: int) -> list[tuple[int, Any]]:
                return list(enumerate(written(chain, runs)[name]))[start:]

            # Those who begin at once read while the runs write.
            early = [asyncio.ensure_future(read(*reader)) for reader in readers]
            assert await handle.result() == "published"
            for (name, start, _), found in zip(readers, await asyncio.gather(*early), strict=True):
                assert found == expected(name, start)
            for _ in range(resets):
                handle = await handle.reset("first-workflow-task")
                assert await handle.result() == "published"
                runs.append(len(chain) - 1)
            for name, start, _ in (*readers, ("a", 0, 0.0), ("b", 0, 0.0)):
                assert await read(name, start, 0) == expected(name, start)

    TestEnvironment.run(story)
