"""Warnings about what no live worker can serve, on stderr."""

from __future__ import annotations

import logging

from outlast.cli.common.stderr import tell
from outlast.client.client import Client
from outlast.errors import WorkflowNotFoundError
from outlast.visibility.reasons import lacks_of


async def tell_lacks(client: Client, workflow_id: str, run_id: str | None = None) -> None:
    """Warn if no live worker can serve what a workflow has to do.

    Args:
        client: The client.
        workflow_id: The workflow.
        run_id: Its run; the current one if ``None``.
    """
    # Said here at once, it need not be logged after ten seconds.
    logging.getLogger("outlast.client").setLevel(logging.ERROR)
    try:
        known = run_id or await client.handle(workflow_id).resolve()
    except WorkflowNotFoundError:
        return
    for lack in await lacks_of(client.runtime, known):
        tell(f"warning: {lack}")
