"""The graph of a run, if it is one of a DAG: its picture, and the same as a table."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from outlast import Client
from outlast.text.dag_words import counts_words, slack_words
from outlast.visibility.dags import DagDescription, DagNode, describe_dag, drawn
from outlast.visibility.views import WorkflowDescription
from outlast_workflow.errors import OutlastError, PayloadCodecError


@dataclass(frozen=True, slots=True)
class Graph:
    """What the page shows of a run of a DAG.

    Attributes:
        found: The run; ``None`` if it cannot be shown.
        why: Why it cannot.
        picture: Its picture as SVG; ``None`` or empty if there is none.
        counts: How many nodes stand how.
        slack: Whether the deadline leaves the time that is needed.
        approvals: The nodes that wait for somebody's decision.
    """

    found: DagDescription | None
    why: str = ""
    picture: Markup | None = None
    counts: str = ""
    slack: str = ""
    approvals: tuple[DagNode, ...] = ()


async def graph_of(client: Client, found: WorkflowDescription) -> Graph | None:
    """Return the graph of a run; ``None`` if the run is not one of a DAG, or has not begun.

    Args:
        client: A client of the database.
        found: The run.
    """
    try:
        dag = await describe_dag(client.runtime, client.converter, found)
    except PayloadCodecError:
        return Graph(
            None, "The DAG of this run is encoded by a payload codec: connect the dashboard with that codec."
        )
    except OutlastError as error:
        return Graph(None, f"The graph cannot be drawn: {error}")
    if dag is None:
        return None
    asking = tuple(node for node in dag.nodes if any(wait.kind == "approval" for wait in node.waits_for))
    # What draws has escaped the names in it.
    return Graph(dag, "", Markup(drawn(dag)), counts_words(dag), slack_words(dag), asking)
