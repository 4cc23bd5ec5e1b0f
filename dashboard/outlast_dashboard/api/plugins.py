"""Routes that other packages bring, found by entry point."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from fastapi import APIRouter

from outlast import Client
from outlast.http_parts import GROUP, HttpParts
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.authorization import Known, TheWeb, check, reader, writer
from outlast_dashboard.security.principals import Scope

logger = logging.getLogger("outlast.web")


def _client(web: TheWeb) -> Client:
    return web.client


def _kept(web: TheWeb) -> dict[str, Any]:
    return web.kept


def _publisher(principal: Known) -> None:
    check(principal, Scope.EVENTS)


PARTS = HttpParts(_client, reader, writer, _publisher, _kept, problems)


def routers() -> Iterator[APIRouter]:
    """Yield the routers of packages whose extras are installed."""
    for entry in entry_points(group=GROUP):
        try:
            make = entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("outlast"):
                raise
            logger.debug("the routes of %s are not served: %s is not installed", entry.name, error.name)
            continue
        yield make(PARTS)
