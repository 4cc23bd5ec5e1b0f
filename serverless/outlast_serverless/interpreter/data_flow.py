"""Data flow: schemas that data must fit, and lengths of time that expressions give."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.plan.durations import LONGEST_US, CalendarUnitError, microseconds
from outlast_serverless.plan.model import Schema
from outlast_serverless.plan.templates import fill_uri, is_uri_template
from outlast_workflow.data.writing import UnwritableError, dump

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_US: float = 1_000_000
MOST_PROBLEMS: Final = 5
"""How many reasons are told why data does not fit its schema."""


def validate(
    validator: Callable[[Schema], Any], schema: Schema | None, value: Any, what: str, pointer: str
) -> None:
    """Check data against a schema.

    Args:
        validator: Returns the validator of the schema.
        schema: The schema; none accepts everything.
        value: The data.
        what: What the data is called: ``input``.
        pointer: The task whose data it is.

    Raises:
        Fault: It does not fit, or the schema cannot be used.
    """
    if schema is None:
        return
    try:
        found = validator(schema)
    except ValueError as error:
        raise fault("configuration", f"the schema of the {what} cannot be used: {error}", pointer) from None
    problems = [_told(one) for one in islice(found.iter_errors(value), MOST_PROBLEMS + 1)]
    if problems:
        more = ", and more" if len(problems) > MOST_PROBLEMS else ""
        told = ";".join(problems[:MOST_PROBLEMS])
        raise fault("validation", f"the {what} does not fit its schema{told}{more}", pointer)


def _told(problem: ValidationError) -> str:
    place = "".join(f"/{part}" for part in problem.instance_path)
    return f" at {place}: {problem.message}" if place else f": {problem.message}"


def check_recordable(value: Any, what: str, pointer: str) -> None:
    """Refuse data that cannot be recorded: each part may be recordable, and the whole too deep.

    Args:
        value: The data.
        what: What the data are called.
        pointer: The task whose data they are.

    Raises:
        Fault: They cannot.
    """
    if isinstance(value, dict | list):
        try:
            dump(value)
        except UnwritableError as error:
            raise fault("runtime", f"the {what} cannot be recorded: {error}", pointer) from None


def filled_uri(text: Any, data: Any, pointer: str) -> Any:
    """Return a URI template of the document, filled in; anything else as it is.

    Args:
        text: What may be one.
        data: The data whose top-level keys it names.
        pointer: The task that it belongs to.

    Raises:
        Fault: A value is an object or an array.
    """
    try:
        return fill_uri(text, data) if is_uri_template(text) else text
    except ValueError as error:
        raise fault("expression", str(error), pointer) from None


def duration_seconds(value: Any, pointer: str) -> float:
    """Return a length of time that an expression gave, in seconds.

    Args:
        value: What it gave.
        pointer: The task that it belongs to.

    Raises:
        Fault: It is no duration, or none that can be kept.
    """
    try:
        found = microseconds(value)
    except CalendarUnitError:
        raise _no_duration(value, pointer, "years and months have no fixed length: say it in days") from None
    if found is None:
        raise _no_duration(
            value, pointer, "write an ISO 8601 duration such as PT5S, or an object such as {seconds: 5}"
        )
    if found > LONGEST_US:
        raise _no_duration(value, pointer, "it is longer than a hundred years")
    return max(found, -LONGEST_US) / _US


def _no_duration(value: Any, pointer: str, remedy: str) -> Fault:
    return fault("expression", f"{value!r:.100} is no duration: {remedy}", pointer)
