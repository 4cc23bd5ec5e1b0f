"""Ids in paths: a workflow id may hold any printable character, slashes included.

Servers decode a path before it is routed, so that an encoded slash becomes a separator. Routes here see ``%2F`` and
``%25`` as they were sent, and decode the id themselves.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send


class EncodedSlashes:
    """Middleware that leaves slashes and percent signs of the path encoded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with that path, if the server says what was sent."""
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw and b"%" in raw:
            kept = (
                raw.partition(b"?")[0]
                .replace(b"%25", b"%2525")
                .replace(b"%2f", b"%252F")
                .replace(b"%2F", b"%252F")
            )
            path = unquote_to_bytes(kept).decode("utf-8", "replace")
            root = scope.get("root_path", "")
            if not path.startswith(root) or scope["path"].startswith(root):
                scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def decoded(text: str) -> str:
    """Return an id from such a path."""
    return unquote(text) if "%" in text else text


def quoted(text: str) -> str:
    """Return an id for such a path."""
    return quote(text, safe="")
