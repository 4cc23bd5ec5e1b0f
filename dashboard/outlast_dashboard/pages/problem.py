"""The page of a problem, with the navigation of those who may see the pages."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from outlast_dashboard.authorization import principal_of
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.problems import Problem, problem_headers
from outlast_dashboard.security.principals import NOBODY
from outlast_dashboard.web import web_of

STRANGE: Final = frozenset({"unknown-host", "no-tokens", "cross-site", "two-lengths"})
"""Problems of requests that may come from anybody: who has a session is not told of it, nor where the database is."""


def problem_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page.

    Args:
        request: The request.
        problem: Why it is not answered otherwise.
    """
    strange = problem.type.rpartition(":")[2] in STRANGE
    known = None if strange or problem.status == 401 else principal_of(request, web_of(request.scope))
    sought = str(problem.facts.get("workflow_id", "")) if problem.status == 404 else ""
    answer = page(
        "problem.html",
        request,
        known or NOBODY,
        problem.status,
        problem=problem,
        sought=sought,
        strange=strange,
    )
    answer.headers.update(problem_headers(problem))
    return answer
