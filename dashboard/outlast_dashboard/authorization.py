"""Dependencies of routes: who made a request, and whether they may make it.

A bearer token in ``Authorization`` or a browser's session cookie identifies the caller. Without configured tokens,
everybody on this machine may do everything; the guard has refused all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from outlast_dashboard.problems import Problem, ProblemError
from outlast_dashboard.security.principals import ANYONE_HERE, Principal, Scope
from outlast_dashboard.security.sessions import COOKIE
from outlast_dashboard.security.tokens import Token, whose
from outlast_dashboard.web import Web, web_of

bearer = HTTPBearer(auto_error=False, description="A token made by `outlast ui token add`.")


def get_web(request: Request) -> Web:
    """Return the control plane that serves the request."""
    return web_of(request.scope)


TheWeb = Annotated[Web, Depends(get_web)]


def principal_of(request: Request, web: Web) -> Principal | None:
    """Return who made a request, as of now, or ``None`` if they are unknown."""
    settings = web.settings
    if not settings.needs_token:
        return ANYONE_HERE
    shown = request.headers.get("authorization")
    token: Token | None = None
    if shown is not None:
        # A header of another scheme is a failed attempt to sign in: the cookie does not replace it.
        scheme, secret = get_authorization_scheme_param(shown)
        token = whose(settings.known_tokens, secret) if scheme.lower() == "bearer" else None
    elif key := request.cookies.get(COOKIE):
        token = web.sessions.token(key)
        if token not in settings.known_tokens:
            token = None
    return token.principal if token is not None else None


def _principal(
    request: Request, web: TheWeb, _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    principal = principal_of(request, web)
    if principal is None:
        shown = request.headers.get("authorization")
        known = "This token is not known" if shown else "A token is needed: Authorization: Bearer …"
        raise ProblemError(Problem.of(401, "not-authenticated", known))
    return principal


Known = Annotated[Principal, Depends(_principal)]


def _standing(request: Request, web: TheWeb, principal: Known) -> Callable[[], bool]:
    return lambda: principal_of(request, web) == principal


Standing = Annotated[Callable[[], bool], Depends(_standing)]
"""Whether the caller's token or session is still valid, with the same scopes. Streams check it before each event."""


def check(principal: Principal, scope: Scope) -> None:
    """Refuse what a principal may not do.

    Args:
        principal: Who made the request.
        scope: The scope that it needs.

    Raises:
        ProblemError: The principal lacks the scope.
    """
    if not principal.may(scope):
        raise ProblemError(
            Problem.of(403, "missing-scope", f"The token {principal.name!r} lacks the scope {scope.value!r}")
        )


def reader(principal: Known) -> Principal:
    """Return who made a request, if they may read."""
    check(principal, Scope.READ)
    return principal


def writer(principal: Known) -> Principal:
    """Return who made a request, if they may write."""
    check(principal, Scope.WRITE)
    return principal


Reader = Annotated[Principal, Depends(reader)]
"""A principal with the scope ``read``."""
Writer = Annotated[Principal, Depends(writer)]
"""A principal with the scope ``write``."""
