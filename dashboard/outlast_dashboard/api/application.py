"""The API as one application, with its OpenAPI document."""

from __future__ import annotations

from functools import cache

from fastapi import Depends, FastAPI

from outlast import __version__
from outlast_dashboard.api import plugins
from outlast_dashboard.api.contract.problem_responses import ALWAYS
from outlast_dashboard.api.contract.unknown_parameters import check_parameters
from outlast_dashboard.api.routes import (
    actions,
    activities,
    alerts,
    bulk,
    history,
    metrics,
    operations,
    outbox,
    queues,
    schedules,
    streams,
    upcoming,
    workflows,
)
from outlast_dashboard.problems import answer_with_problems

DESCRIPTION = """
Outlast's control plane: start workflows, inspect them, send them messages, end them.

Times are ISO 8601 with an offset, durations are seconds. Every error is answered with problem details (RFC 9457):
`type` is stable, `detail` says what to do. Ids in paths are percent-encoded, slashes included.
"""


@cache
def make_api() -> FastAPI:
    """Return the application of ``/api``, which serves all control planes of the process."""
    app = FastAPI(
        title="Outlast",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=ALWAYS,
        dependencies=[Depends(check_parameters)],
    )
    for router in (
        workflows.router,
        history.router,
        streams.router,
        actions.router,
        activities.router,
        bulk.router,
        queues.router,
        schedules.router,
        outbox.router,
        alerts.router,
        upcoming.router,
        operations.router,
        metrics.router,
    ):
        app.include_router(router)
    for router in plugins.routers():
        app.include_router(router)
    answer_with_problems(app)
    return app
