"""A module that cannot be imported, because a DAG in it cannot be built."""

from __future__ import annotations

from outlast_dag import dag, step


@dag
def unbuildable() -> None:
    step("http-fetch")()
    step("http-fetch", timeout=-1)()
