"""Refusing unknown query parameters. A misspelt filter would otherwise widen a request without notice."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request

from outlast_dashboard.authorization import Known
from outlast_dashboard.problems import Problem, ProblemError


def check_parameters(request: Request, _: Known) -> None:
    """Refuse a query parameter that the OpenAPI document does not name for the route.

    Raises:
        ProblemError: The request has one.
    """
    known = _parameters(request)
    for name in request.query_params:
        if name not in known:
            raise ProblemError(
                Problem.of(422, "unknown-parameter", _words(name, known), field=f"query.{name:.100}")
            )


def _parameters(request: Request) -> list[str]:
    app: FastAPI = request.app
    paths: Mapping[str, Any] = app.openapi()["paths"]
    operation = paths[request.scope["route"].path][request.method.lower()]
    return [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]


def _words(name: str, known: list[str]) -> str:
    unknown = f"there is no query parameter {name!r:.100} here"
    near = get_close_matches(name, known, n=1)
    if near:
        return f"{unknown}: did you mean {near[0]!r}?"
    return f"{unknown}: there are {', '.join(known)}" if known else f"{unknown}: give none"
