"""The runtime of a control plane: one for all routes and pages."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Depends

from outlast import Client
from outlast.http_parts import HttpParts
from outlast_serverless.runtime.runtime import Runtime

_KEY: Final = "outlast_serverless"


def runtime_of(parts: HttpParts) -> Any:
    """Return the dependency that gives a route the runtime.

    Args:
        parts: What the control plane hands in.
    """
    of_request, keeping = Depends(parts.client), Depends(parts.kept)

    def runtime(client: Client = of_request, kept: dict[str, Any] = keeping) -> Runtime:
        found: Runtime | None = kept.get(_KEY)
        if found is None or found.client is not client:
            found = kept[_KEY] = Runtime(client)
        return found

    return Depends(runtime)
