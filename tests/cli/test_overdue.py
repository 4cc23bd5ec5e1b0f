"""What nobody enforced, as the command line shows it, and one pass that does."""

from __future__ import annotations

from tests.cli.conftest import Command

from outlast import StartOptions
from outlast.testing import TestEnvironment


async def leave_overdue(url: str) -> None:
    """Start, on a clock that is months behind, what nobody is there to end."""
    async with TestEnvironment(url=url) as env:
        await env.client.start("Order", id="late", options=StartOptions(run_timeout=60))


def test_what_is_overdue_is_listed_and_ended_by_one_pass(bare: Command, url: str) -> None:
    TestEnvironment.run(leave_overdue, url)
    bare("start", "Order", "--id", "in-time", "--run-timeout", "1h", "--url", url)
    for flag in ("--overdue", "--attention"):
        [run] = bare("list", flag, "--json", "--url", url).lines
        assert run["workflow_id"] == "late"
        assert "overdue" in run["attention"]
        assert bare("count", flag, "--url", url).out == "1\n"
        assert "in-time" not in bare("list", flag, "--url", url).out
    report = bare("watchdog", "--once", "--json", "--url", url).json
    assert report["counts"] == {"run_timeout": 1}
    assert report["left"] == {}
    assert report["worst_lateness_seconds"] > 60
    assert report["next_deadline_at"] is not None
    assert bare("count", "--overdue", "--url", url).out == "0\n"
    assert bare("result", "late", "--json", "--url", url).json["status"] == "timed_out"
