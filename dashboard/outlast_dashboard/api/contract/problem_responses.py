"""The problems that routes can answer with, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from outlast_dashboard.problems import MEDIA_TYPE, Problem

_SCHEMA: Final = {"$ref": "#/components/schemas/Problem"}
_WORDS: Final = {
    400: "The request asks for a name that is not served here, or can't be read.",
    401: "No token, or one that is not known.",
    403: "The token lacks a scope, or the request comes from another site.",
    404: "There is no such workflow, run or handler.",
    409: "The workflow is not in a state for that.",
    413: "The request is too large.",
    422: "Something in the request can't be; `field` says what.",
    429: "Too many requests; `Retry-After` says when to go on.",
    408: "There was no answer in time; the workflow, or its worker, is busy or stuck.",
    503: "The database does not answer, or no worker can.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses with problem details, for a route's ``responses``."""
    return {
        status: {
            "model": Problem,
            "description": _WORDS[status],
            "content": {MEDIA_TYPE: {"schema": _SCHEMA}},
        }
        for status in statuses
    }


ALWAYS: Final = problems(400, 401, 403, 413, 422, 429, 503)
"""What any route may answer."""
