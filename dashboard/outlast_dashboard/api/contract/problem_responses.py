"""The problems with which routes may answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from outlast_dashboard.problems import MEDIA_TYPE, Problem

_SCHEMA: Final = {"$ref": "#/components/schemas/Problem"}
_WORDS: Final = {
    400: "The host name is not served here, or the body cannot be decoded.",
    401: "There is no token, or it is not known.",
    403: "The token lacks a scope, or the request comes from another site.",
    404: "There is no such workflow, run, activity or handler.",
    409: "The state of the workflow or the activity does not allow it.",
    413: "The request is too large.",
    422: "A value of the request is not valid; `field` names it.",
    429: "Too many requests; `Retry-After` says when to continue.",
    408: "The body did not arrive in time, or a query got no answer: the workflow or its worker is busy or stuck.",
    503: "The database does not answer, no worker can, or the server is busy.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses with problem details for these statuses, for a route's ``responses``."""
    return {
        status: {
            "model": Problem,
            "description": _WORDS[status],
            "content": {MEDIA_TYPE: {"schema": _SCHEMA}},
        }
        for status in statuses
    }


ALWAYS: Final = problems(400, 401, 403, 408, 413, 422, 429, 503)
"""The problems with which every route may answer."""
