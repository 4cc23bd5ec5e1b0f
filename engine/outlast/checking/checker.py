"""The checker of workflow code: which functions are checked, and how findings are reported.

The check reads source code and runs nothing. It follows the functions that a workflow uses in its own module. It cannot
see what other modules do, what is called through objects, and what ``exec`` makes; the runtime guard and replay can.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Literal

from outlast.checking.modules import module_of
from outlast.checking.walker import Found, Walker
from outlast_activities.definitions import ActivityDefinition
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import InvalidOptionError

logger = logging.getLogger("outlast.worker")

StaticChecks = Literal["warn", "error", "off"]

_known: dict[str, list[Found]] = {}
"""The findings by the place of each workflow, which a process checks once and reports once."""


def check(definition: WorkflowDefinition) -> list[Found]:
    """Return what the code of a workflow does that may not replay, by file and line."""
    found: set[Found] = set()
    walkers: dict[str, Walker] = {}
    for function in _entries(definition):
        code = function.__code__
        module = module_of(code.co_filename)
        node = None if module is None else module.function(code.co_firstlineno, code.co_name)
        if module is None or node is None:
            continue
        walker = walkers.get(module.path)
        if walker is None:
            is_activity = _activities_of(function.__globals__)
            walker = walkers[module.path] = Walker(module, is_activity, plain=not definition.is_async)
        walker.walk(node)
    for walker in walkers.values():
        found |= walker.found
    return sorted(found)


def report(definitions: Iterable[WorkflowDefinition], mode: StaticChecks) -> None:
    """Check workflows when they are registered: warn of each once, or refuse them.

    Args:
        definitions: The workflows.
        mode: ``warn``, ``error`` or ``off``.

    Raises:
        InvalidOptionError: Something was found, and the mode is ``error``.
    """
    if mode not in ("warn", "error", "off"):
        raise InvalidOptionError(
            f"static checks must be 'warn', 'error' or 'off', not {mode!r:.40}", field="static_checks"
        )
    if mode == "off":
        return
    for definition in definitions:
        found = _known.get(definition.source)
        reported = found is not None
        if found is None:
            found = _known[definition.source] = check(definition)
        if not found or (reported and mode == "warn"):
            continue
        message = (
            f"workflow {definition.name} may not replay:\n"
            + "\n".join(f"  {line(one)}" for one in found)
            + "\nFix it, or mark a line that is safe with `# outlast: allow`."
        )
        if mode == "error":
            raise InvalidOptionError(message, field="workflows")
        logger.warning(message)


def line(found: Found) -> str:
    """Return a finding as one line."""
    return f"{found.path}:{found.line}: [{found.rule}] {found.code} {found.why}: use {found.instead}"


def _entries(definition: WorkflowDefinition) -> list[FunctionType]:
    handlers = definition.handlers
    functions: list[Any] = [definition.fn]
    for among in (handlers.signals, handlers.queries, handlers.updates, handlers.dynamic):
        for handler in among.values():
            functions += [handler.fn, handler.validator]
    if definition.cls is not None:
        functions.append(definition.cls.__init__)  # type: ignore[misc]
    return [one for one in map(_unwrapped, functions) if isinstance(one, FunctionType)]


def _unwrapped(function: Any) -> Any:
    return None if function is None else inspect.unwrap(function)


def _activities_of(names: dict[str, Any]) -> Callable[[str], bool]:
    return lambda name: isinstance(names.get(name), ActivityDefinition)
