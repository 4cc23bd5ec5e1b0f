"""The examples of the page on tasks give what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from ruamel.yaml import YAML

from outlast.errors import FaultedError
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_serverless import Document, Runtime

PAGE = (Path(__file__).parents[2] / "docs" / "serverless" / "tasks.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
HEAD = {"dsl": "1.0.3", "namespace": "examples", "name": "page", "version": "1.0.0"}


def parts(block: str) -> dict[str, Any]:
    """What the first lines of an example say: its input, and its output or error."""
    return {name: orjson.loads(text) for name, text in re.findall(r"^# (\w+): (.*)$", block, re.M)}


def document(block: str) -> Document:
    """The document of an example."""
    whole = {"document": HEAD, "use": parts(block).get("use", {}), "do": YAML(typ="safe").load(block)}
    return Document.parse(orjson.dumps(whole))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.mark.parametrize("block", BLOCKS, ids=[document(block).plan.tasks.tasks[0].name for block in BLOCKS])
def test_an_example_is_in_order(block: str) -> None:
    assert not document(block).warnings


RUNNING = [block for block in BLOCKS if "input" in parts(block)]


@pytest.mark.parametrize(
    "block", RUNNING, ids=[document(block).plan.tasks.tasks[0].name for block in RUNNING]
)
async def test_an_example_gives_what_the_page_says(block: str) -> None:
    expected = parts(block)
    async with (
        TestEnvironment() as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(document(block), expected["input"])
        if "error" in expected:
            with pytest.raises(FaultedError) as caught:
                await run.result()
            assert caught.value.error == expected["error"]
        else:
            assert await run.result() == expected["output"]
