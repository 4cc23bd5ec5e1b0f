"""Problem details (RFC 9457): the answers to requests that fail.

``type`` is a stable URN that programs may branch on. ``field`` and ``facts`` hold the attributes of the error, such as
``workflow_id`` and ``kind``. No message contains a payload, and an unforeseen error is reported without its message.
"""

from __future__ import annotations

import logging
import math
import re
import traceback
from typing import Any, Final, Self
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from outlast import errors
from outlast.text.error_reports import one_line
from outlast_workflow.errors import RefusedError
from outlast_workflow.errors.options import DocumentProblem
from outlast_workflow.errors.refusals import DeleteRefusedError, ResetRefusedError

logger = logging.getLogger("outlast.web")

MEDIA_TYPE: Final = "application/problem+json"


class Problem(BaseModel):
    """What went wrong.

    Attributes:
        type: A stable name of the problem.
        title: The same in a few words.
        status: The HTTP status.
        detail: What happened, and what to do.
        field: The part of the request that caused it.
        facts: The other attributes of the error.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    facts: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_unforeseen(self) -> bool:
        """Whether nobody thought of it: such a problem tells nothing of itself."""
        return self.type.endswith(":internal")

    @classmethod
    def of(
        cls,
        status: int,
        kind: str,
        detail: str,
        *,
        field: str | None = None,
        facts: dict[str, Any] | None = None,
    ) -> Self:
        """Return a problem of a kind.

        Args:
            status: The HTTP status.
            kind: The last part of the type, in words with dashes.
            detail: What happened, and what to do.
            field: The part of the request that caused it.
            facts: The other attributes of the error.
        """
        title = kind.replace("-", " ").capitalize()
        return cls(
            type=f"urn:outlast:problem:{kind}",
            title=title,
            status=status,
            detail=detail,
            field=field,
            facts=facts or {},
        )


class ProblemError(Exception):
    """A problem that a route found itself."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


_STATUSES: Final[tuple[tuple[type[errors.OutlastError], int], ...]] = (
    (errors.InvalidOptionError, 422),
    (errors.WorkflowNotFoundError, 404),
    (errors.ActivityNotFoundError, 404),
    (errors.QueueNotFoundError, 404),
    (errors.OutboxRowNotFoundError, 404),
    (errors.AlertNotFoundError, 404),
    (errors.AlertAcknowledgedError, 409),
    (errors.OutboxRefusedError, 409),
    (errors.ScheduleNotFoundError, 404),
    (errors.ScheduleExistsError, 409),
    (errors.InvalidDocumentError, 422),
    (errors.UnsupportedTaskError, 422),
    (errors.FaultedError, 422),
    (errors.DocumentNotFoundError, 404),
    (errors.DocumentConflictError, 409),
    (errors.UntraceableRunError, 409),
    (errors.QueueExistsError, 409),
    (errors.QueueInUseError, 409),
    (errors.WorkflowAlreadyStartedError, 409),
    (errors.WorkflowClosedError, 409),
    (errors.WorkflowAlreadyBegunError, 409),
    (errors.AttemptNotRunningError, 409),
    (errors.ActivityCancelRequestedError, 409),
    (errors.DamagedHistoryError, 500),
    (RefusedError, 409),
    (errors.StructuralLimitError, 422),
    (errors.WorkflowTaskError, 422),
    (errors.StoreError, 503),
    (errors.UnstorableValueError, 422),
    (errors.NoWorkerError, 409),
    (errors.RequestTimeoutError, 408),
    (errors.UnknownHandlerError, 404),
    (errors.UpdateRejectedError, 409),
    (errors.RequestError, 422),
    (ResetRefusedError, 409),
    (DeleteRefusedError, 409),
)


def problem_of(error: errors.OutlastError) -> Problem:
    """Return the problem of an error of the engine."""
    for cls, status in _STATUSES:
        if isinstance(error, cls):
            facts = {name: _plain(getattr(error, name, None)) for name in error.facts}
            field = facts.pop("field", None)
            kind = _dashed(type(error).__name__)
            return Problem.of(status, kind, _detail(error), field=field, facts=facts)
    return Problem.of(500, "internal", "An unexpected error occurred: see the server's log")


def _dashed(name: str) -> str:
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-").removesuffix("-error")


def _detail(error: errors.OutlastError) -> str:
    # An answer has no __cause__: the detail must say why the workflow's code refused or failed the request.
    return one_line(error) if isinstance(error, errors.RequestError) else str(error)


def _plain(value: Any) -> Any:
    if isinstance(value, DocumentProblem):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def problem_headers(problem: Problem) -> dict[str, str]:
    """Return the headers that go with a problem, whatever form it has."""
    if problem.status == 429:
        return {"retry-after": str(math.ceil(problem.facts["retry_after_s"]))}
    if problem.status == 401:
        return {"www-authenticate": 'Bearer realm="outlast"'}
    return {}


def problem_response(problem: Problem) -> Response:
    """Return a problem as a response."""
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=problem.status,
        headers=problem_headers(problem),
        media_type=MEDIA_TYPE,
    )


def unforeseen_problem(scope: Scope, error: Exception) -> Problem:
    """Log where an error was raised, without its message, which may hold a payload; return the problem."""
    where = "".join(traceback.format_tb(error.__traceback__))
    # The path is decoded by now: a line break in it would start a new line of the log.
    path = quote(scope["path"], safe="/%")
    logger.error("%s %s failed with %s\n%s", scope["method"], path, type(error).__name__, where)
    return Problem.of(500, "internal", "An unexpected error occurred: see the server's log")


API_DOCUMENT: Final = "/api/openapi.json"

_KINDS: Final = {
    404: "not-found",
    405: "method-not-allowed",
    408: "body-timeout",
    413: "too-large",
    503: "busy",
}


def problem_of_http(error: HTTPException) -> Problem:
    """Return the problem of what the framework or a limit refused."""
    if isinstance(error.__cause__, RecursionError):
        # The framework's parser of JSON.
        return Problem.of(422, "invalid-request", "The body is nested too deeply: make it flatter")
    kind = _KINDS.get(error.status_code, "refused")
    return Problem.of(error.status_code, kind, str(error.detail))


async def http_problem(request: Request, error: Exception) -> Response:
    """Return what the framework refused as a problem."""
    assert isinstance(error, HTTPException)
    problem = problem_of_http(error)
    if (problem.status, problem.detail) == (404, "Not Found"):
        detail = f"There is nothing at this address: {API_DOCUMENT} lists what there is"
        problem = Problem.of(404, "not-found", detail)
    response = problem_response(problem)
    response.headers.update(error.headers or {})
    if error.status_code == 405 and isinstance(request.app, FastAPI):
        response.headers["allow"] = ", ".join(_allowed(request.app, request.scope))
    return response


def _allowed(app: FastAPI, scope: Scope) -> list[str]:
    """Return all methods of a path, which several routes may share."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    found: set[str] = set()
    for template, methods in app.openapi()["paths"].items():
        pattern = "[^/]+".join(re.escape(part) for part in re.split(r"{[^}]*}", template))
        if re.fullmatch(pattern, path):
            found |= {method.upper() for method in methods}
    return sorted(found)


def _meant(request: Request, error: dict[str, Any]) -> str:
    """Return what is wrong with a request, in words that say what to send."""
    kind = error["type"]
    if kind == "extra_forbidden":
        return f"there is no such field: {API_DOCUMENT} lists those of each request"
    if kind == "missing" and error["loc"] == ("body",):
        return "a JSON body is missing: send {} if there is nothing to say"
    if kind == "model_attributes_type":
        sent = request.headers.get("content-type", "")
        if "json" not in sent.lower():
            return "the body must be JSON: send the header content-type: application/json"
        return "the body must be a JSON object"
    return str(error["msg"])


def answer_with_problems(app: FastAPI) -> None:
    """Make an application answer errors with problem details."""

    async def unforeseen(request: Request, error: Exception) -> Response:
        return problem_response(unforeseen_problem(request.scope, error))

    async def of_the_engine(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.OutlastError)
        problem = problem_of(error)
        if problem.is_unforeseen:
            return await unforeseen(request, error)
        return problem_response(problem)

    async def found(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return problem_response(error.problem)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        # The input itself is never repeated.
        said = f"{field}: {_meant(request, first)}"
        return problem_response(Problem.of(422, "invalid-request", said, field=field))

    app.add_exception_handler(errors.OutlastError, of_the_engine)
    app.add_exception_handler(ProblemError, found)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_problem)
    app.add_exception_handler(Exception, unforeseen)
