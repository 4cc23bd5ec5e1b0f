"""Coming in with a token, once; a session cookie stands for it after that."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.access import TheWeb
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.security.sessions import COOKIE, LIFETIME_S
from outlast_dashboard.security.tokens import whose

router = APIRouter()

NOBODY = Principal("", frozenset())


@router.get("/login")
async def ask(request: Request, next: str = "/") -> Response:
    """Ask for a token."""
    return page("login.html", request, NOBODY, next=_local(next), wrong=False)


@router.post("/login")
async def come_in(
    request: Request, web: TheWeb, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/"
) -> Response:
    """Look at a token; a session begins if it is one."""
    response = RedirectResponse(base_of(request) + _local(next), 303)
    if not web.settings.needs_token:
        return response
    known = whose(web.settings.known_tokens, token.strip())
    if known is None:
        return page("login.html", request, NOBODY, 403, next=_local(next), wrong=True)
    response.set_cookie(
        COOKIE,
        web.sessions.open(known),
        max_age=LIFETIME_S,
        path=base_of(request) or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout")
async def leave(request: Request, web: TheWeb) -> Response:
    """End the session."""
    key = request.cookies.get(COOKIE)
    if key:
        web.sessions.close(key)
    response = RedirectResponse(base_of(request) + "/login", 303)
    response.delete_cookie(COOKIE, path=base_of(request) or "/")
    return response


def _local(target: str) -> str:
    """A path of ours, whatever was asked for."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    if parts.scheme or parts.netloc or not target.startswith("/") or target.startswith(("//", "/\\")):
        return "/"
    return target


def login_url(request: Request) -> str:
    """Where somebody without a session is sent; they come back to where they wanted to go."""
    wanted = request.scope["path"] if request.method == "GET" else "/"
    if request.url.query and request.method == "GET":
        wanted += f"?{request.url.query}"
    return f"{base_of(request)}/login?next={quote(wanted, safe='')}"
