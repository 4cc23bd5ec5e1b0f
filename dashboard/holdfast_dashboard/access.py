"""Dependencies of routes: who asks, and whether they may.

A bearer token in ``Authorization`` or a browser's session cookie says who; without configured tokens everybody on this
machine may do everything (the guard has turned all others away).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast_dashboard.problems import Problem, ProblemError
from holdfast_dashboard.security.principals import ANYONE_HERE, Principal, Scope
from holdfast_dashboard.security.sessions import COOKIE
from holdfast_dashboard.security.tokens import whose
from holdfast_dashboard.web import Web

bearer = HTTPBearer(auto_error=False, description="A token made by `holdfast ui token add`.")


def get_web(request: Request) -> Web:
    """The control plane that serves the request."""
    web: Web = request.app.state.web
    return web


TheWeb = Annotated[Web, Depends(get_web)]


def principal_of(request: Request, web: Web, secret: str | None) -> Principal | None:
    """Who asks; ``None`` where nobody knows."""
    if not web.settings.tokens:
        return ANYONE_HERE
    if secret is not None:
        return whose(web.settings.tokens, secret)
    key = request.cookies.get(COOKIE)
    return web.sessions.whose(key) if key else None


def _principal(
    request: Request, web: TheWeb, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    # A header of another scheme is no token, but it is an attempt: the cookie does not stand in for it.
    secret = shown.credentials if shown is not None else request.headers.get("authorization")
    principal = principal_of(request, web, secret)
    if principal is None:
        known = "This token is not known" if secret else "A token is needed: Authorization: Bearer …"
        raise ProblemError(Problem.of(401, "not-authenticated", known))
    return principal


Known = Annotated[Principal, Depends(_principal)]


def check(principal: Principal, scope: Scope) -> None:
    """Refuse what a principal may not do.

    Raises:
        ProblemError: They lack the scope.
    """
    if not principal.may(scope):
        raise ProblemError(
            Problem.of(403, "missing-scope", f"The token {principal.name!r} lacks the scope {scope.value!r}")
        )


def _reader(principal: Known) -> Principal:
    check(principal, Scope.READ)
    return principal


def _writer(principal: Known) -> Principal:
    check(principal, Scope.WRITE)
    return principal


Reader = Annotated[Principal, Depends(_reader)]
"""Somebody who may look."""
Writer = Annotated[Principal, Depends(_writer)]
"""Somebody who may change things."""
