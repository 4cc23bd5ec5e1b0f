"""Ids in paths: a workflow id may hold any printable character, slashes included.

Servers decode a path before it is routed, and an encoded slash then is one. Routes here see ``%2F`` and ``%25`` as they
were sent, and decode the id once they have it.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send


class EncodedSlashes:
    """Routes on the path with its slashes and percent signs still encoded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the application such a path, where the server says what was sent."""
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
    """An id out of such a path."""
    return unquote(text) if "%" in text else text


def quoted(text: str) -> str:
    """An id for such a path."""
    return quote(text, safe="")
