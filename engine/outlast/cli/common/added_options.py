"""Options that several commands share as one set: a command names the set once, and receives what was given of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

Options = Mapping[str, tuple[Any, Any]]
"""Each option's type and typer option, by the name of its parameter. The default is ``None``; of a flag, ``False``."""


def option(*names: str, help: str, metavar: str | None = None) -> Any:
    """Return an option without a default that help shows.

    Args:
        *names: Its names, such as ``--queue``.
        help: What it does.
        metavar: What stands for its value.
    """
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


def with_options(
    command: Callable[..., None], parameter: str, options: Options, read: Callable[[dict[str, Any]], Any]
) -> Callable[..., None]:
    """Return a command with the options of a set.

    Args:
        command: The command.
        parameter: The parameter that receives what was given of the set.
        options: The set.
        read: Makes the parameter's value of the options' values.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    place = [one.name for one in own].index(parameter)

    def complete(**given: Any) -> None:
        of_the_set = {name: given.pop(name) for name in options}
        command(**{parameter: read(of_the_set)}, **given)

    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if kind is bool else None,
            annotation=Annotated[kind, described],
        )
        for name, (kind, described) in options.items()
    ]
    mine = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    parameters = [*mine[:place], *added, *mine[place + 1 :]]
    complete.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    complete.__annotations__ = {one.name: one.annotation for one in parameters}
    complete.__doc__ = command.__doc__
    complete.__name__ = command.__name__
    return complete
