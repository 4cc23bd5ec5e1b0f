"""Pages that other packages bring, found by entry point."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from outlast import Client
from outlast.http_parts import PAGES_GROUP, PageParts, Pages, RunSection
from outlast.visibility.views import WorkflowDescription
from outlast_dashboard.api.plugins import PARTS
from outlast_dashboard.pages.rendering import add_package, base_of, page
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import web_of

logger = logging.getLogger("outlast.web")


def _page(
    template: str, request: Request, principal: Principal, status_code: int = 200, **values: Any
) -> Response:
    return page(template, request, principal, status_code, **values)


async def _live(
    template: str,
    request: Request,
    principal: Principal,
    values: Callable[[], Awaitable[dict[str, Any]]],
    **once: Any,
) -> Response:
    name = template.removesuffix(".html")
    return await live_page(request, web_of(request.scope), principal, name, values, **once)


PAGE_PARTS: Final = PageParts(PARTS, _page, _live, base_of)


@cache
def packages() -> tuple[Pages, ...]:
    """Return the pages of packages whose extras are installed. Their templates and links are there from then on."""
    found: list[Pages] = []
    for entry in entry_points(group=PAGES_GROUP):
        try:
            make = entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("outlast"):
                raise
            logger.debug("the pages of %s are not served: %s is not installed", entry.name, error.name)
            continue
        pages: Pages = make(PAGE_PARTS)
        add_package(pages.name, pages.folder / "templates", pages.links)
        found.append(pages)
    return tuple(found)


async def sections_of(client: Client, described: WorkflowDescription, *, payloads: bool) -> list[RunSection]:
    """Return what packages show of a run.

    Args:
        client: A client of the database.
        described: The run.
        payloads: Whether who asks sees payloads.
    """
    shown = [await one.section(client, described, payloads) for one in packages()]
    return [section for section in shown if section is not None]
