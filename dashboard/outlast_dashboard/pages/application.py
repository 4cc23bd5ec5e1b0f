"""The pages as one application."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from outlast.errors import OutlastError
from outlast_dashboard.pages import alerts, login, operations, plugins, queues, start, upcoming
from outlast_dashboard.pages.problem import problem_page
from outlast_dashboard.pages.run import actions, page, stream
from outlast_dashboard.pages.runs import bulk, listing
from outlast_dashboard.pages.schedules import form as schedule_form
from outlast_dashboard.pages.schedules import routes as schedules
from outlast_dashboard.pages.streaming import wants_stream
from outlast_dashboard.problems import Problem, ProblemError, problem_of, problem_of_http, unforeseen_problem

STATIC: Final = Path(__file__).parent.parent / "static"


@cache
def make_pages() -> FastAPI:
    """Return the application of the pages, which serves all control planes of the process."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for router in (
        *(login.router, listing.router, bulk.router, start.router),
        *(page.router, stream.router, actions.router, queues.router),
        *(schedule_form.router, schedules.router, operations.router, alerts.router, upcoming.router),
    ):
        app.include_router(router)
    for package in plugins.packages():
        app.include_router(package.router)
        app.mount(f"/static/{package.name}", StaticFiles(directory=package.folder / "static"))
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_exception_handler(ProblemError, _refused)
    app.add_exception_handler(OutlastError, _of_the_engine)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    if error.problem.status != 401:
        return problem_page(request, error.problem)
    if not wants_stream(request):
        return RedirectResponse(login.login_url(request), 303)
    answer = problem_page(request, error.problem)
    # The browser loads the page again, which leads to the form.
    answer.headers["hx-refresh"] = "true"
    return answer


async def _of_the_engine(request: Request, error: Exception) -> Response:
    assert isinstance(error, OutlastError)
    problem = problem_of(error)
    return await _unforeseen(request, error) if problem.is_unforeseen else problem_page(request, problem)


async def _invalid(request: Request, error: Exception) -> Response:
    return problem_page(
        request, Problem.of(422, "invalid-request", "A value in the address or the form is not valid")
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = problem_of_http(error)
    if problem.status == 404:
        problem = problem.model_copy(update={"detail": "There is no page at this address"})
    answer = problem_page(request, problem)
    answer.headers.update(error.headers or {})
    return answer


async def _unforeseen(request: Request, error: Exception) -> Response:
    return problem_page(request, unforeseen_problem(request.scope, error))
