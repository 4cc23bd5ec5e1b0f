"""Signing in with a token, which a session cookie then replaces."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.authorization import TheWeb
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.security.principals import NOBODY
from outlast_dashboard.security.sessions import COOKIE, LIFETIME_S
from outlast_dashboard.security.tokens import whose

router = APIRouter()

MOST_TARGET: Final = 4_000


@router.get("/login")
async def ask(request: Request, next: str = "/") -> Response:
    """Ask for a token."""
    return page("login.html", request, NOBODY, next=_local(next), wrong=False)


@router.post("/login")
async def sign_in(
    request: Request, web: TheWeb, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/"
) -> Response:
    """Start a session if the token is known."""
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
async def sign_out(request: Request, web: TheWeb) -> Response:
    """End the session."""
    key = request.cookies.get(COOKIE)
    if key:
        web.sessions.close(key)
    response = RedirectResponse(base_of(request) + "/login", 303)
    response.delete_cookie(COOKIE, path=base_of(request) or "/")
    return response


def _local(target: str) -> str:
    """Return the target if it is a path of this site, or the first page."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    # Browsers read a backslash as a slash, and skip control characters.
    odd = not target.isprintable() or "\\" in target or len(target) > MOST_TARGET
    if odd or parts.scheme or parts.netloc or not target.startswith("/") or target.startswith("//"):
        return "/"
    return target


def login_url(request: Request) -> str:
    """Return the address of the form, which leads back to the page that was requested."""
    wanted = request.scope["path"] if request.method == "GET" else "/"
    if request.url.query and request.method == "GET":
        wanted += f"?{request.url.query}"
    return f"{base_of(request)}/login?next={quote(wanted, safe='')}"
