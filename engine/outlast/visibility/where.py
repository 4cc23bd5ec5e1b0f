"""Filters by search attributes: ``where={"customer": "c-7", "amount": Range(at_least=5)}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from outlast_store.schema.search_index import Scalar, Wanted, sortable
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.search_attributes import checked_name, checked_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Values between two ends, either of which may be open: ``Range(at_least=5, below=10)``.

    The ends are numbers, texts or datetimes, both of one kind. Integers and floats are compared as numbers, texts by
    their code points. A run whose attribute is of another kind does not match.

    Raises:
        InvalidOptionError: No end is given, two for one side, or ends that cannot be compared.
    """

    at_least: str | int | float | datetime | None = None
    above: str | int | float | datetime | None = None
    at_most: str | int | float | datetime | None = None
    below: str | int | float | datetime | None = None

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        ends = {name: end for name, end in given.items() if end is not None}
        if not ends:
            raise _bad("a Range needs an end: at_least, above, at_most or below")
        for one, other in (("at_least", "above"), ("at_most", "below")):
            if one in ends and other in ends:
                raise _bad(f"a Range has {one} or {other}, not both")
        kinds = {sortable(_end(name, end))[0] for name, end in ends.items()}
        if len(kinds) > 1:
            raise _bad("the ends of a Range must be of one kind: numbers, texts or datetimes")


def _end(name: str, end: Any) -> Scalar:
    if isinstance(end, bool):
        raise _bad(f"{name} of a Range must be a number, text or a datetime, not bool")
    return checked_scalar(f"{name} of a Range", end)


def _end_or_none(what: str, end: Any) -> Scalar | None:
    return None if end is None else checked_scalar(what, end)


def wanted_attributes(where: Any) -> tuple[Wanted, ...]:
    """Check filters by attributes: a value, several of which one must match, or a :class:`Range`.

    Raises:
        InvalidOptionError: An attribute cannot have such a name or value.
    """
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        raise _bad(f"where must be a dict of attribute names and values, not {type(where).__name__}")
    try:
        return tuple(_wanted(checked_name(name), value) for name, value in where.items())
    except InvalidOptionError as error:
        raise _bad(error.message) from None


def _wanted(name: str, value: Any) -> Wanted:
    what = f"where {name!r}"
    if isinstance(value, Range):
        return Wanted(
            name,
            at_least=_end_or_none(what, value.at_least),
            above=_end_or_none(what, value.above),
            at_most=_end_or_none(what, value.at_most),
            below=_end_or_none(what, value.below),
        )
    if isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise _bad(f"{what} must name at least one value: leave it out for all")
        several = {sortable(one): one for one in (checked_scalar(what, item) for item in value)}
        return Wanted(name, tuple(several[key] for key in sorted(several)))
    return Wanted(name, (checked_scalar(what, value),))


def _bad(message: str) -> InvalidOptionError:
    return InvalidOptionError(message, field="where")
