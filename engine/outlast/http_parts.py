"""What the control plane hands to packages that bring routes and pages of their own, so that no import points upwards.

A package names a function under the entry point group ``outlast.http``. It takes :class:`HttpParts` and returns a
router, whose routes then stand under ``/api``. One under ``outlast.pages`` takes :class:`PageParts` and returns
:class:`Pages`, which the dashboard shows among its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from outlast.client.client import Client
from outlast.visibility.views import WorkflowDescription

GROUP: Final = "outlast.http"
PAGES_GROUP: Final = "outlast.pages"


@dataclass(frozen=True, slots=True)
class HttpParts:
    """The parts that routes are made of. All but the last are dependencies of the web framework.

    Attributes:
        client: Returns the client.
        reader: Refuses who may not read. What it returns has ``sees_payloads``.
        writer: Refuses who may not write.
        publisher: Refuses who may not publish events.
        kept: Returns a mapping that lives as long as the control plane.
        problems: Returns the responses with problem details for some statuses, for a route's ``responses``.
    """

    client: Callable[..., Any]
    reader: Callable[..., Any]
    writer: Callable[..., Any]
    publisher: Callable[..., Any]
    kept: Callable[..., dict[str, Any]]
    problems: Callable[..., dict[int | str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class PageParts:
    """The parts that pages are made of.

    Attributes:
        http: The parts of their routes.
        page: Returns a page: of a template, the request, who made it, ``status_code``, and what the template shows.
        live: Returns a page that is kept live, or the stream that it asks for: of a template, the request, who made it,
            a function that returns what its main part shows, and what only the page around that shows. The main part of
            ``package/name.html`` is ``package/_name.html``.
        base: Returns the path under which the control plane is mounted, of a request.
    """

    http: HttpParts
    page: Callable[..., Any]
    live: Callable[..., Awaitable[Any]]
    base: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class RunSection:
    """What a package shows on the page of a run.

    Attributes:
        template: The template, as ``package/name.html``. It finds the values in ``section.values``.
        style: A file of the package's ``static`` folder that it needs.
        values: What it shows.
        leads: Whether it stands right below the state of the run, before what the engine tells of its waits or its end.
        input_key: Under which key of the run's only argument the input lies that people gave; empty if that argument is
            the input.
    """

    template: str
    style: str
    values: Mapping[str, Any]
    leads: bool = False
    input_key: str = ""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages that a package brings.

    Attributes:
        name: What its templates and static files are found under.
        folder: The folder that has ``templates`` and ``static``.
        router: The routes.
        links: What stands in the navigation: addresses and words.
        section: Returns what the page of a run shows of it, of the client, the run, and whether payloads are seen;
            ``None`` for other runs.
    """

    name: str
    folder: Path
    router: Any
    links: tuple[tuple[str, str], ...]
    section: Callable[[Client, WorkflowDescription, bool], Awaitable[RunSection | None]]
