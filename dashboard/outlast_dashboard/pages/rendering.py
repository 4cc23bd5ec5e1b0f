"""Rendering templates, and the filters that they use for times and durations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
)
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from outlast import __version__
from outlast.text.alert_words import mark_words
from outlast.text.dag_words import firing_words, state_words, waits_words
from outlast.text.wording import capped, clock, counted, label, progress_words, words
from outlast.visibility.alerts import how_far
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.security.principals import ANYONE_HERE, Principal, Scope
from outlast_dashboard.web import web_of
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.primitives.enums import Attention
from outlast_workflow.primitives.times import to_datetime

NEAR_S: Final = 60.0
SOON_S: Final = 600.0


def nearness(deadline: datetime, now: datetime, whole: float | None = None) -> str:
    """Return how near a deadline is: ``passed``, ``near``, ``soon`` or ``far``.

    Args:
        deadline: The deadline.
        now: The current time.
        whole: The timeout in seconds. The last quarter of a short one is near, its last half soon.
    """
    left = (deadline - now).total_seconds()
    near, soon = _thresholds(whole)
    return "passed" if left <= 0 else "near" if left <= near else "soon" if left <= soon else "far"


def _thresholds(whole: float | None) -> tuple[float, float]:
    return (NEAR_S, SOON_S) if whole is None else (min(NEAR_S, whole / 4), min(SOON_S, whole / 2))


def until(deadline: datetime | None, now: datetime, whole: float | None = None) -> Markup:
    """Return the time that a deadline leaves, in a colour that says how near it is. The page counts it down.

    Args:
        deadline: The deadline.
        now: The current time.
        whole: The timeout in seconds, if it is known.
    """
    if deadline is None:
        return Markup('<span class="none">none</span>')
    left = (deadline - now).total_seconds()
    near, soon = _thresholds(whole)
    said = f"{words(left)} over" if left <= 0 else f"{words(left)} left"
    return Markup(
        '<time class="until {}" datetime="{}" title="{}" data-until data-near="{:g}" data-soon="{:g}">{}</time>'
    ).format(nearness(deadline, now, whole), deadline.isoformat(), clock(deadline), near, soon, said)


def ahead(instant: datetime, now: datetime) -> Markup:
    """Return the time until something is due, such as a timer. It is coloured only if it is late."""
    left = (instant - now).total_seconds()
    said = f"{words(left)} over" if left <= 0 else f"in {words(left)}"
    return Markup('<time class="ahead {}" datetime="{}" title="{}" data-ahead>{}</time>').format(
        "passed" if left <= 0 else "far", instant.isoformat(), clock(instant), said
    )


def used(deadline: datetime, start: datetime, now: datetime, what: str = "deadline") -> Markup:
    """Return a bar of the time that is used until a deadline. The page lets it grow.

    Args:
        deadline: The deadline.
        start: From when its timeout counts.
        now: The current time.
        what: Whose time it is, for those who hear the page.
    """
    whole = max(0.001, (deadline - start).total_seconds())
    gone = min(max(0.0, (now - start).total_seconds()), whole)
    near, soon = _thresholds(whole)
    return Markup(
        '<progress class="meter {}" value="{:.1f}" max="{:.1f}" aria-label="{}: time used" '
        'data-from="{}" data-to="{}" data-near="{:g}" data-soon="{:g}"></progress>'
    ).format(
        nearness(deadline, now, whole),
        gone,
        whole,
        what.capitalize(),
        start.isoformat(),
        deadline.isoformat(),
        near,
        soon,
    )


def instant(at: datetime | None, precise: bool = False) -> Markup:
    """Return an instant in UTC, which the page shows in the zone that was chosen.

    Args:
        at: The instant; a dash if there is none.
        precise: Whether to show milliseconds.
    """
    if at is None:
        return Markup('<span class="none">–</span>')
    text = clock(at).removesuffix("Z")
    return Markup('<time class="instant" datetime="{}" title="{}" data-instant="{}">{}</time>').format(
        at.isoformat(), clock(at), "precise" if precise else "", text if precise else text[:19]
    )


def lasted(start: datetime | None, end: datetime | None, now: datetime) -> Markup:
    """Return how long something took; until it has ended the page continues to count.

    Args:
        start: When it began; a dash if it has not.
        end: When it ended, if it has.
        now: The current time.
    """
    if start is None:
        return Markup('<span class="none">–</span>')
    if end is not None:
        return Markup("<span>{}</span>").format(words((end - start).total_seconds()))
    return Markup('<time datetime="{}" title="{}" data-lasts>{}</time>').format(
        start.isoformat(), clock(start), words(int(max(0.0, (now - start).total_seconds())))
    )


def since(instant: datetime | None, now: datetime) -> Markup:
    """Return how long ago an instant was, in one unit. The page continues to count."""
    if instant is None:
        return Markup("")
    gone = (now - instant).total_seconds()
    said = f"{_rough(gone)} ago" if gone >= 0 else f"in {_rough(-gone)}"
    return Markup('<time datetime="{}" title="{}" data-since>{}</time>').format(
        instant.isoformat(), clock(instant), said
    )


def since_or_instant(at: datetime, now: datetime) -> Markup:
    """Return how long ago an instant of the last day was, and an older one itself: days ago are too vague."""
    return since(at, now) if (now - at).total_seconds() < 86_400 else instant(at)


def _rough(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def seconds(value: float | None) -> str:
    """Return a duration in words."""
    return "–" if value is None else words(value)


def coded(text: str) -> Markup:
    """Return a sentence whose parts between backticks are shown as code."""
    parts = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter and an end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


_NEEDS: Final = {
    Attention.NO_POLLER: "no worker",
    Attention.OWNERS_KEEP_DYING: "its workers keep dying",
}


def need(kind: Attention) -> str:
    """Return in a few words what a run needs attention for."""
    return _NEEDS.get(kind, kind.replace("_", " "))


def moment_or_text(text: str) -> Markup | str:
    """Return an instant as one, and any other text as it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return instant(at) if at.tzinfo is not None else text


def share(value: float | None) -> str:
    """Return a share as a percentage."""
    return "–" if value is None else f"{value * 100:.1f} %"


def figure(number: float) -> str:
    """Return a number as people write it: ``1,234`` or ``0.5``."""
    return f"{int(number):,}" if number == int(number) else f"{number:,.3g}"


def badge(status: str) -> Markup:
    """Return a status in its colour. The word itself suffices without the colour."""
    return Markup('<span class="badge {}">{}</span>').format(status, status.replace("_", " "))


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


def source(kind: str) -> str:
    """Return the source of a failure in a word that fits a column."""
    return kind.removesuffix("_execution").removeprefix("workflow_").replace("_", " ")


def moment(us: int | None) -> datetime | None:
    """Return the datetime of a column, which is in microseconds."""
    return None if us is None else to_datetime(us)


_packages: Final[dict[str, BaseLoader]] = {}
_links: Final[list[tuple[str, str]]] = []
environment = Environment(
    loader=ChoiceLoader([PackageLoader("outlast_dashboard"), PrefixLoader(_packages)]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_filters: dict[str, Any] = environment.filters
for _filter in (
    *(until, nearness, used, ahead, since, instant, lasted, clock, moment),
    *(
        seconds,
        share,
        figure,
        counted,
        capped,
        badge,
        pretty,
        source,
        quoted,
        coded,
        label,
        progress_words,
        moment_or_text,
        sentence,
        need,
        since_or_instant,
        state_words,
        waits_words,
        firing_words,
        how_far,
        mark_words,
    ),
):
    _filters[_filter.__name__] = _filter
_globals: dict[str, Any] = environment.globals
_globals["version"] = __version__
_globals["package_links"] = _links


def add_package(name: str, templates: Path, links: Sequence[tuple[str, str]]) -> None:
    """Add the templates and links of another package.

    Args:
        name: What its templates are found under.
        templates: Where they are.
        links: Addresses and words for the navigation.
    """
    _packages[name] = FileSystemLoader(templates)
    _links.extend(links)


def base_of(request: Request) -> str:
    """Return the path under which the control plane is mounted inside another application."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


class DatabaseLabel(NamedTuple):
    """The database in the bar: its kind and a short name, without users and passwords."""

    kind: str
    name: str


def database_label(url: DatabaseUrl) -> DatabaseLabel:
    """Return how the bar names a database: a file without its folders, or a host and a database."""
    if url.backend == "sqlite":
        return DatabaseLabel("SQLite", "in memory" if url.path is None else url.path.name)
    made = url.sqlalchemy_url
    return DatabaseLabel("PostgreSQL", "/".join(part for part in (made.host, made.database) if part))


def fragment(template: str, request: Request, principal: Principal, **values: Any) -> str:
    """Return a template as text.

    Args:
        template: The name of the template.
        request: The request.
        principal: Who made it.
        **values: What the template shows.
    """
    base = base_of(request)
    here = request.scope["path"].removeprefix(base) or "/"
    return environment.get_template(template).render(
        base=base,
        principal=principal,
        may_write=principal.may(Scope.WRITE),
        may_query=principal.may(Scope.READ) and principal.sees_payloads,
        signed_in=principal is not ANYONE_HERE,
        here=here,
        within_runs=here.startswith(("/workflows/", "/start", "/bulk")),
        **values,
    )


def page(
    template: str, request: Request, principal: Principal, status_code: int = 200, **values: Any
) -> HTMLResponse:
    """Return a template as a page.

    Args:
        template: The name of the template.
        request: The request.
        principal: Who made it.
        status_code: The HTTP status.
        **values: What the template shows.
    """
    around: dict[str, Any] = {"live": False, "database": None, "clock_now": None}
    if principal.name:
        web = web_of(request.scope)
        around |= {"database": database_label(web.client.runtime.url), "clock_now": web.now()}
    return HTMLResponse(fragment(template, request, principal, **(around | values)), status_code=status_code)
