"""Runs of DAGs on the terminal: for ``outlast describe`` and ``outlast dag show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from outlast.cli.common.output import left, table
from outlast.client.client import Client
from outlast.text.dag_words import counts_words, firing_words, slack_words, state_words, waits_words
from outlast.visibility.dags import DagDescription, DagNode, NodeState, describe_dag
from outlast.visibility.views import WorkflowDescription
from outlast_workflow.errors import OutlastError

MOST_SHOWN: Final = 200

_COLOURS: Final[dict[NodeState, str]] = {
    "running": "cyan",
    "backing_off": "yellow",
    "completed": "green",
    "recovered": "green",
    "failed": "red",
    "timed_out": "red",
    "upstream_failed": "red",
    "compensation_failed": "red",
    "cancelled": "yellow",
    "compensated": "yellow",
}


async def dag_of(client: Client, found: WorkflowDescription) -> DagDescription | str | None:
    """Return the description of a run as one of a DAG, why there is none although it is one, or ``None``.

    Args:
        client: A client of the database.
        found: The run.
    """
    try:
        return await describe_dag(client.runtime, client.converter, found)
    except OutlastError as error:
        return f"its DAG cannot be shown: {error}"


def dag_lines(found: DagDescription | str) -> Iterator[RenderableType]:
    """Yield what people are shown of a run of a DAG.

    Args:
        found: The run, or why it cannot be shown.
    """
    if isinstance(found, str):
        yield Text(found, style="yellow")
        return
    version = f" {found.version}" if found.version else ""
    yield Text.assemble((f"DAG {found.name}{version}", "bold"), f", {found.hash[:12]}: {counts_words(found)}")
    slack = slack_words(found)
    if slack:
        yield Text(slack, style="bold red" if found.at_risk else "")
    made = table("NODE", "STATE", "WAITS FOR", "FIRES", drop=("FIRES", "WAITS FOR"))
    for node in found.nodes[:MOST_SHOWN]:
        made.add_row(
            f"{node.id} *" if node.critical else node.id,
            Text(state_words(node), style=_COLOURS.get(node.state, "")),
            waits_words(node),
            _firing(found, node),
        )
    yield made
    if len(found.nodes) > MOST_SHOWN:
        yield Text(f"and {len(found.nodes) - MOST_SHOWN:,} more nodes")
    yield Text("* lies on the chain that takes longest", style="dim")
    for node in [one for one in found.nodes if one.last_failure is not None][:MOST_SHOWN]:
        failure = node.last_failure
        if failure is not None:
            yield Text.assemble((node.id, "red"), f": {failure.exception_class}: {failure.message}")


def _firing(found: DagDescription, node: DagNode) -> Text:
    if node.fires is None:
        return Text("")
    return Text.assemble(f"{firing_words(node)} ", left(node.fires.at, found.described_at))
