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

    @property
    def nodes(self) -> tuple[DagNode, ...]:
        """Its nodes."""
        return self.found.nodes if self.found is not None else ()

    @property
    def has_aside(self) -> bool:
        """Whether there are nodes that only failures need."""
        return any(node.on_failure or node.compensate for node in self.nodes)

    @property
    def has_failures(self) -> bool:
        """Whether a node has failed, or an attempt of one."""
        return any(node.last_failure is not None for node in self.nodes)

    @property
    def children(self) -> dict[str, list[str]]:
        """The children that nodes wait for, by node."""
        return {
            node.id: [wait.name for wait in node.waits_for if wait.kind == "child"] for node in self.nodes
        }


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
