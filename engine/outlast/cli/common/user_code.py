"""Loading the user's workflows, activities, interceptors and codecs by ``module[:name]``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from outlast.cli.common.exit_codes import CommandFailedError
from outlast.client.interceptors import Interceptor, checked_interceptors
from outlast.client.schedules.definition import Schedule
from outlast_activities.definitions import ActivityDefinition
from outlast_workflow.data.converter import DataConverter, PayloadCodec
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import InvalidOptionError, OutlastError


def load(targets: Iterable[str]) -> tuple[list[Any], list[Any]]:
    """Return the workflows and the activities that are named, each once.

    Args:
        targets: ``module`` for everything that a module or package defines, ``module:name`` for one workflow, one
            activity or a list of them.

    Raises:
        InvalidOptionError: There is no such module or name, or a worker cannot run what it names.
        CommandFailedError: A module raised an error while it was imported.
    """
    workflows: dict[int, Any] = {}
    activities: dict[tuple[str, Any], Any] = {}
    for target in targets:
        for thing in _things(target):
            if isinstance(thing, ActivityDefinition):
                # `with_options` returns the same activity with other options.
                activities.setdefault((thing.name, thing.fn), thing)
            else:
                workflows[id(thing)] = thing
    return list(workflows.values()), list(activities.values())


def _things(target: str) -> list[Any]:
    module_name, colon, path = target.partition(":")
    module = import_module(module_name)
    if not colon:
        return _defined_by(module)
    found = _attribute(module, path, target)
    if isinstance(found, ModuleType):
        return _defined_by(found)
    if isinstance(found, list | tuple | set | frozenset):
        things = list(found)
        for thing in things:
            _check(thing, target)
        return things
    _check(found, target)
    return [found]


def import_module(name: str) -> ModuleType:
    """Import a user's module, from the path or the current folder.

    Raises:
        InvalidOptionError: There is no such module.
        CommandFailedError: The module raised an error while it was imported.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.endswith(".py") or "/" in name:
        dotted = ".".join(part for part in name.removesuffix(".py").split("/") if part not in ("", ".", ".."))
        hint = f": leave '.py' and folders out, as in {dotted}" if dotted else ""
        raise InvalidOptionError(f"{name!r} is not the name of a module{hint}", field="module")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidOptionError(
                f"there is no module {error.name!r} in {here} or on the path: check the name and the folder",
                field="module",
            ) from None
        raise _not_importable(name, error) from error
    except OutlastError as error:
        raise _not_importable(name, error) from error
    except Exception as error:
        raise _not_importable(name, error) from error


def _not_importable(name: str, error: Exception) -> CommandFailedError:
    return CommandFailedError(
        f"module {name!r} cannot be imported: {type(error).__name__}: {error} (OUTLAST_DEBUG=1 shows where)"
    )


def _attribute(module: ModuleType, path: str, target: str) -> Any:
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InvalidOptionError(
                f"module {module.__name__!r} has no {path!r}: check the name after the colon in {target!r}",
                field="module",
            ) from None
    return found


def _defined_by(module: ModuleType) -> list[Any]:
    """Return what a module or package defines, without what it imports from elsewhere."""
    found: dict[int, Any] = {}
    elsewhere: set[str] = set()
    for name, thing in vars(module).items():
        if not _is_runnable(thing):
            continue
        home = (thing.fn if isinstance(thing, ActivityDefinition) else thing).__module__
        if home == module.__name__ or home.startswith(f"{module.__name__}."):
            found[id(thing)] = thing
        else:
            elsewhere.add(f"{home}:{name}")
    if not found:
        hint = f"; it imports {', '.join(sorted(elsewhere))}: name those" if elsewhere else ""
        raise InvalidOptionError(
            f"module {module.__name__!r} defines no workflow and no activity{hint}", field="module"
        )
    return list(found.values())


def _is_runnable(thing: object) -> bool:
    if isinstance(thing, ActivityDefinition):
        return not thing.is_unbound
    if not isinstance(thing, type) and not callable(thing):
        return False
    try:
        definition_of(thing)
    except InvalidOptionError:
        return False
    return True


def _check(thing: object, target: str) -> None:
    if not isinstance(thing, ActivityDefinition) and not _is_runnable(thing):
        raise InvalidOptionError(
            f"{target!r} is neither a workflow nor an activity, nor a list of them: it is (or holds) a "
            f"{type(thing).__name__}",
            field="module",
        )


def schedules_of(target: str) -> list[Schedule]:
    """Return the schedules of ``module`` (all that it has, alone or in lists) or of ``module:name`` (one, or a list).

    Raises:
        InvalidOptionError: There is no such module or name, or no schedule in it.
        CommandFailedError: The module raised an error while it was imported.
    """
    module_name, colon, path = target.partition(":")
    module = import_module(module_name)
    things = [_attribute(module, path, target)] if colon else list(vars(module).values())
    found: dict[int, Schedule] = {}
    for thing in things:
        for one in thing if isinstance(thing, list | tuple | set | frozenset) else [thing]:
            if isinstance(one, Schedule):
                found[id(one)] = one
            elif colon:
                raise InvalidOptionError(
                    f"{target!r} is neither a Schedule nor a list of them: it is (or holds) a {type(one).__name__}",
                    field="module",
                )
    if not found and not colon:
        raise InvalidOptionError(
            f"module {module.__name__!r} declares no schedule: SCHEDULES = [Schedule('nightly', report, spec=…)]",
            field="module",
        )
    return list(found.values())


def named(what: str, target: str) -> Any:
    """Return what a ``MODULE:NAME`` names.

    Args:
        what: What it is, for the error.
        target: The name.

    Raises:
        InvalidOptionError: It is no such name, or there is nothing of that name.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not path:
        raise InvalidOptionError(f"{what} must be MODULE:NAME, not {target!r}", field=what)
    return _attribute(import_module(module_name), path, target)


def interceptors(targets: Iterable[str]) -> tuple[Interceptor, ...]:
    """Return the interceptors of ``--interceptor module:name``: one, its class, or a list of either.

    Raises:
        InvalidOptionError: There is no interceptor of that name, or its class needs arguments.
    """
    made: list[Any] = []
    for target in targets:
        found = named("interceptor", target)
        for one in found if isinstance(found, list | tuple) else [found]:
            if isinstance(one, type) and issubclass(one, Interceptor):
                try:
                    made.append(one())
                except Exception as error:
                    raise InvalidOptionError(
                        f"interceptor {target!r} cannot be made without arguments: {type(error).__name__}: {error}: "
                        "name an instance",
                        field="interceptor",
                    ) from error
            else:
                made.append(one)
    return checked_interceptors(made)


def converter(target: str | None) -> DataConverter | None:
    """Return the converter of ``--codec module:name``: a codec, a data converter, or what makes one.

    Raises:
        InvalidOptionError: There is no codec of that name, or making it needs arguments.
    """
    if not target:
        return None
    module_name, colon, path = target.partition(":")
    if not colon or not path:
        raise InvalidOptionError(f"codec must be MODULE:NAME, not {target!r}", field="codec")
    found = _attribute(import_module(module_name), path, target)
    if isinstance(found, type) or (callable(found) and not isinstance(found, PayloadCodec)):
        try:
            found = found()
        except Exception as error:
            raise InvalidOptionError(
                f"codec {target!r} cannot be made without arguments: {type(error).__name__}: {error}: name a codec, a "
                "data converter, or a function that makes one",
                field="codec",
            ) from error
    if isinstance(found, DataConverter):
        return found
    if isinstance(found, PayloadCodec):
        return DataConverter(found)
    raise InvalidOptionError(
        f"{target!r} is a {type(found).__name__}: a codec has a name, encode() and decode()", field="codec"
    )
