"""A module with a builder, and with the DAG that it has built."""

from __future__ import annotations

from tests.dag.flows import fetch

from outlast_dag import DagBuilder

flow = DagBuilder("twice", timeout=20)
flow.task("fetch", fetch)
twice = flow.build()
