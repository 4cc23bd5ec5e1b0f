"""A release as a DAG: it waits for its build, looks until tests are green, asks a person, and starts the rollout."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from outlast import Client, Worker, activity, workflow
from outlast_dag import approval, approve, child, dag, dry_run, repeat, sleep, step, wait_for


@dataclass
class Build:
    version: str
    image: str


@dataclass
class Tests:
    passed: int
    left: int


looks = 0
asked = asyncio.Event()


@activity.defn
async def tests_of(image: str) -> Tests:
    global looks
    looks += 1
    return Tests(passed=10 * looks, left=30 - 10 * looks)


@activity.defn
async def ask(reviewer: str, image: str) -> None:
    print(f"{reviewer}, please look at {image}")
    asked.set()


@workflow.defn(run_timeout=600)
async def roll_out(image: str) -> str:
    await workflow.sleep(0.1)
    return f"{image} is everywhere"


@dag(timeout=86400, strict=True)
def release(version: str) -> str | None:
    built = wait_for("built", result=Build, timeout=3600, match=lambda build: build.version == version)
    tests = repeat(
        tests_of,
        timeout=30,
        until=lambda tests: tests.left == 0,
        max_iterations=20,
        max_duration=1800,
        delay=0.1,
    )(built.image)
    settled = sleep(0.1, after=[tests])
    step(ask, timeout=5, after=[settled])("ada", built.image)
    review = approval("review", timeout=3600, run_when=tests.passed > 0, after=[settled])
    return child(roll_out, run_when=review.approved)(built.image)


WORKFLOWS = [release, roll_out]
ACTIVITIES = [tests_of, ask]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        handle = await client.start(release, "7", id="release-7")
        await handle.signal("built", Build("6", "app:6"))
        await handle.signal("built", Build("7", "app:7"))
        # A person does this elsewhere: `outlast dag approve release-7 review --comment go`.
        await asked.wait()
        decision = await approve(handle, "review", comment="go", by="ada")
        print(f"approved by {decision.by} after {looks} looks at the tests")
        print(await handle.result())
    rejected = dry_run(
        release,
        "7",
        outcomes={
            "built": {"image": "app:7"},
            "tests_of": {"passed": 3, "left": 0},
            "review": {"approved": False},
        },
    )
    print("if it is rejected, the rollout is", rejected.states["roll_out"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/release.db"))
