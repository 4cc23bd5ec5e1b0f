"""What a client shares with the handles that it makes."""

from __future__ import annotations

from dataclasses import dataclass

from outlast.runtime.runtime import Runtime
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.interceptor_chain import Chain


@dataclass(slots=True, frozen=True)
class ClientContext:
    """A client's way to its database, and how it reads, writes, limits and intercepts what it sends.

    Attributes:
        runtime: The process's connection pool, journal and subscriptions for the database.
        converter: How arguments and results become JSON.
        limits: The structural limits that requests are checked against.
        interceptors: What each verb passes through; empty where there are none.
    """

    runtime: Runtime
    converter: DataConverter
    limits: StructuralLimits
    interceptors: Chain
