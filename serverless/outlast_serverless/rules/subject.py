"""What rules look at: the tasks of a definition, each in its scope. Not even the types are taken for granted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from outlast_serverless.plan.kinds import PROTOCOLS, kinds_of
from outlast_serverless.plan.pointers import child
from outlast_serverless.rules.finding import Names

NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Task:
    """A task.

    Attributes:
        name: Its name in its list.
        pointer: Its place.
        kind: Of what kind it is.
        value: What stands there.
        scope: The list that it is in.
        variables: The variables that the loops and catches around it set.
    """

    name: str
    pointer: str
    kind: str
    value: dict[str, Any]
    scope: Scope
    variables: frozenset[str]

    @property
    def protocol(self) -> str | None:
        """What a call calls, if that is no function."""
        called = self.value.get("call")
        return called if self.kind == "call" and called in PROTOCOLS else None


@dataclass(slots=True)
class Scope:
    """A list of tasks.

    Attributes:
        pointer: Its place.
        parallel: Whether it holds the branches of a fork.
        loop: Whether it is run again for each item.
        single: Whether it is no list, but one function.
        tasks: Its tasks, in order.
        outer: The list around it.
        entries: The names in the list and where they are, also of what is no task.
    """

    pointer: str
    parallel: bool = False
    loop: bool = False
    single: bool = False
    tasks: list[Task] = field(default_factory=list)
    outer: Scope | None = None
    entries: list[tuple[str, str]] = field(default_factory=list)


class Subject:
    """A definition with its tasks.

    Attributes:
        definition: The definition.
        scopes: All lists of tasks, those of functions and extensions too.
        tasks: All tasks.
        use: What the definition has under ``use``.
        loose: Whether any text may be an expression.
    """

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self._names: dict[str, Names] = {}
        self.scopes: list[Scope] = []
        self.tasks: list[Task] = []
        self.use = mapping(definition, "use")
        self.loose = mapping(definition, "evaluate").get("mode") == "loose"
        self._list(definition.get("do"), "/do", None, NO_NAMES)
        for name, task in mapping(self.use, "functions").items():
            scope = Scope(child("/use/functions", name), single=True)
            self.scopes.append(scope)
            self._task(name, task, child("/use/functions", name), scope, NO_NAMES)
        for index, name, extension in entries(self.use.get("extensions")):
            place = child("/use/extensions", index, name)
            for part in ("before", "after"):
                self._list(extension.get(part), f"{place}/{part}", None, NO_NAMES)

    @cached_property
    def secrets(self) -> Names:
        """The names of the secrets."""
        return Names(one for one in items(self.use, "secrets") if isinstance(one, str))

    def names(self, kind: str) -> Names:
        """Return the names of the components of a kind."""
        known = self._names.get(kind)
        if known is None:
            known = self._names[kind] = Names(self.component(kind))
        return known

    def component(self, kind: str) -> dict[str, Any]:
        """Return the named components of a kind, such as ``timeouts``."""
        return mapping(self.use, kind)

    def _list(
        self,
        tasks: Any,
        pointer: str,
        outer: Scope | None,
        names: frozenset[str],
        *,
        parallel: bool = False,
        loop: bool = False,
    ) -> None:
        if not isinstance(tasks, list):
            return
        scope = Scope(pointer, parallel, loop, outer=outer)
        self.scopes.append(scope)
        for index, item in enumerate(tasks):
            if isinstance(item, dict):
                for name, task in item.items():
                    place = child(pointer, index, name)
                    scope.entries.append((name, place))
                    self._task(name, task, place, scope, names)

    def _task(self, name: str, value: Any, pointer: str, scope: Scope, names: frozenset[str]) -> None:
        kinds = kinds_of(value) if isinstance(value, dict) else []
        if len(kinds) != 1:
            return
        kind = kinds[0]
        self.tasks.append(Task(name, pointer, kind, value, scope, names))
        scope.tasks.append(self.tasks[-1])
        if kind == "do":
            self._list(value["do"], f"{pointer}/do", scope, names)
        elif kind == "for":
            loop = mapping(value, "for")
            self._list(
                value.get("do"),
                f"{pointer}/do",
                scope,
                names | named(loop, each="item", at="index"),
                loop=True,
            )
        elif kind == "fork":
            self._list(
                mapping(value, "fork").get("branches"),
                f"{pointer}/fork/branches",
                scope,
                names,
                parallel=True,
            )
        elif kind == "try":
            self._list(value["try"], f"{pointer}/try", scope, names)
            caught = mapping(value, "catch")
            self._list(
                caught.get("do"), f"{pointer}/catch/do", scope, names | named(caught, **{"as": "error"})
            )
        elif kind == "listen":
            self._iterator(mapping(value, "foreach"), f"{pointer}/foreach", scope, names)
        elif kind == "call":
            subscription = mapping(mapping(value, "with"), "subscription")
            self._iterator(
                mapping(subscription, "foreach"), f"{pointer}/with/subscription/foreach", scope, names
            )

    def _iterator(self, iterator: dict[str, Any], pointer: str, scope: Scope, names: frozenset[str]) -> None:
        self._list(
            iterator.get("do"),
            f"{pointer}/do",
            scope,
            names | named(iterator, item="item", at="index"),
            loop=True,
        )


def mapping(value: Any, key: str) -> dict[str, Any]:
    """Return a mapping under a key, an empty one if there is none.

    Args:
        value: What may be a mapping.
        key: The key.
    """
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def items(value: Any, key: str) -> list[Any]:
    """Return a list under a key, an empty one if there is none.

    Args:
        value: What may be a mapping.
        key: The key.
    """
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, list) else []


def entries(value: Any) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the position, name and value of each entry of a list of mappings with one key each."""
    return [
        (index, name, inner)
        for index, item in enumerate(value if isinstance(value, list) else [])
        if isinstance(item, dict)
        for name, inner in item.items()
        if isinstance(inner, dict)
    ]


def named(value: dict[str, Any], **defaults: str) -> frozenset[str]:
    """Return the names of variables that a mapping sets.

    Args:
        value: The mapping.
        **defaults: For each key that names a variable, its name if the key is not there.
    """
    names = (value.get(key, default) for key, default in defaults.items())
    return frozenset(name for name in names if isinstance(name, str))
