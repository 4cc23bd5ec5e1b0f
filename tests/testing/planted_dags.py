"""What breaks the rules about runs of DAGs, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, change_events, say_in

PLANTED: Planted = [
    (
        change_events(
            "graph", "SideEffectRecorded", "payload = replace(payload, '\"timeout\":', '\"timeOut\":')"
        ),
        "records a DAG whose hash is not",
    ),
    (
        say_in("graph", "ActivityScheduled", "summary", "'nobody'"),
        "is labelled nobody, which is no node of its DAG",
    ),
    (
        say_in("plan", "ActivityScheduled", "summary", "'nobody'"),
        "is labelled nobody, which is no node of its DAG",
    ),
]
