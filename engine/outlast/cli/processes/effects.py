"""``outlast effects create`` and ``prune``: the table that ``activity.once()`` needs in a user's own database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import typer
from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from outlast.cli.common.options import AsJson
from outlast.cli.common.output import document, show
from outlast.text.parsing import duration
from outlast_activities.effects import create_effects, has_effects, prune_effects
from outlast_store.database.driver_errors import driver_error
from outlast_workflow.errors import EffectsTableMissingError, InvalidUrlError, StoreError

app = typer.Typer(
    name="effects",
    help="Make or prune the table of effects that activity.once() needs in a database of yours.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

EffectsUrl = Annotated[
    str,
    typer.Option(
        "--url",
        help="Your database, as SQLAlchemy names it, such as mysql+pymysql://host/shop.",
        show_default=False,
    ),
]


@app.command()
def create(url: EffectsUrl, json: AsJson = False) -> None:
    """Make the table outlast_effects, if it is not there."""
    with _engine(url) as engine:
        made = create_effects(engine)
        where = engine.url.render_as_string()
    if json:
        document({"url": where, "created": made})
    else:
        show(f"the table outlast_effects of {where} was {'made' if made else 'there already'}")


@app.command()
def prune(
    url: EffectsUrl,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="The age, such as 30d: longer than any activity is retried.",
            show_default=False,
        ),
    ],
    json: AsJson = False,
) -> None:
    """Delete the effects that are older than an age."""
    seconds = duration("older than", older_than)
    assert seconds is not None
    age = timedelta(seconds=seconds)
    with _engine(url) as engine:
        if not has_effects(engine):
            raise EffectsTableMissingError(
                f"{engine.url.render_as_string()} has no table outlast_effects: check the URL, or run "
                "`outlast effects create` with it first"
            )
        deleted = prune_effects(engine, age)
    if json:
        document({"deleted": deleted})
    else:
        show(f"deleted {deleted:,} effects that were older than {older_than}")


@contextmanager
def _engine(url: str) -> Generator[Engine]:
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(parsed, hide_parameters=True)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidUrlError(
            f"SQLAlchemy cannot use that URL ({type(error).__name__}): give one of its URLs, and install the driver"
        ) from error
    try:
        yield engine
    except SQLAlchemyError as error:
        raise StoreError(
            f"{parsed.render_as_string()} refused: {str(driver_error(error)) or type(error).__name__}; check the URL, "
            "and that this user may make tables"
        ) from None
    finally:
        engine.dispose()
