"""What stands for a value that is not known yet: an output of a node, a parameter, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeVar, cast

from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.sources import users_line
from outlast_dag.spec.values import Path, Root
from outlast_workflow.errors import DagValidationError
from outlast_workflow.errors.documents import Problem

T = TypeVar("T")

_LISTS: Final = "use each to call an activity for every item; what computes belongs in an activity"
_INSTEAD: Final = {
    "bool": (
        "use skip_when or run_when for an if, and all_of, any_of and none_of for and, or and not; "
        "what computes belongs in an activity"
    ),
    "call": (
        "it has no methods: a step's options are keywords, or .with_timeout(…), .with_retry(…) and the others of a "
        "builder's step; what computes belongs in an activity"
    ),
    "await": "leave await out: the steps behind it wait for it",
    "contains": "use is_in for a condition; what computes belongs in an activity",
    **dict.fromkeys(("iter", "aiter", "next", "reversed", "len"), _LISTS),
    **dict.fromkeys(("and", "rand", "or", "ror", "invert"), "use all_of, any_of and none_of for conditions"),
}
"""What to write instead, by the special method that was called."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What an :class:`Output` stands for.

    Attributes:
        draft: The DAG that it belongs to.
        root: Whether it is a node's output, a parameter or a bound name.
        step: The node, if it is an output, or the failure of one.
        name: The parameter or the bound name otherwise.
        path: The way into it.
        hint: The type hint of what is at the root.
        or_else: What takes its place where there is no value, in a tuple of one.
    """

    draft: Draft
    root: Root
    step: Step | None = None
    name: str = ""
    path: Path = ()
    hint: Any = Any
    or_else: tuple[Any, ...] = ()

    @property
    def words(self) -> str:
        """What it is, in messages."""
        return (
            f"what {self.step.id!r} returns" if self.step is not None and not self.name else f"{self.name!r}"
        )

    def refuse(self, use: str = "") -> NoReturn:
        """Refuse to be used as if the value were known: the trace cannot go on.

        Args:
            use: How it was used: the name of a special method without its underscores.

        Raises:
            DagValidationError: Always, with the problems that were found before.
        """
        problem = Problem(
            "value_not_known",
            self.step.id if self.step is not None else "",
            users_line(),
            f"{self.words} is not known when the DAG is built",
            _INSTEAD.get(use, "what computes belongs in an activity"),
        )
        raise DagValidationError(self.draft.name, [*self.draft.problems, problem])


class Output:
    """A value that is not known when the DAG is built. ``.name`` and ``["name"]`` lead into it.

    Comparisons give conditions. Everything else that needs the value is refused.
    """

    __slots__ = ("_at",)

    _at: Place

    def __init__(self, at: Place) -> None:
        object.__setattr__(self, "_at", at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a name that begins with an underscore is reached by [{name!r}]")
        return self[name]

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, bool) or not isinstance(key, str | int):
            self._at.refuse()
        return Output(replace(self._at, path=(*self._at.path, key)))

    def __eq__(self, other: object) -> Check:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return Check("==", (self, other))

    def __ne__(self, other: object) -> Check:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return Check("!=", (self, other))

    def __lt__(self, other: object) -> Check:
        return Check("<", (self, other))

    def __le__(self, other: object) -> Check:
        return Check("<=", (self, other))

    def __gt__(self, other: object) -> Check:
        return Check(">", (self, other))

    def __ge__(self, other: object) -> Check:
        return Check(">=", (self, other))

    def __repr__(self) -> str:
        path = "".join(f"[{step!r}]" for step in self._at.path)
        return f"<{self._at.words}{path}>"


def output_of(draft: Draft, step: Step) -> Output:
    """Return what a step will return.

    Args:
        draft: The DAG.
        step: The step.
    """
    return Output(Place(draft, "of", step, hint=step.result_hint))


def parameter_of(draft: Draft, name: str) -> Output:
    """Return what a run will be started with.

    Args:
        draft: The DAG.
        name: The parameter.
    """
    return Output(Place(draft, "param", name=name, hint=draft.params.hint(draft.params.names.index(name))))


def last_of(draft: Draft, first: Any) -> Output:
    """Return what the call before returned.

    Args:
        draft: The DAG.
        first: What is given to the first call.
    """
    return Output(Place(draft, "bound", name="result", or_else=(first,)))


class Check:
    """A condition, before the DAG is built: an operator and what it is asked of."""

    __slots__ = ("op", "parts", "source")

    def __init__(self, op: str, parts: tuple[Any, ...]) -> None:
        self.op = op
        self.parts = parts
        self.source = users_line()

    def __bool__(self) -> bool:
        first = next(_outputs(self), None)
        if first is not None:
            first._at.refuse("bool")
        return True

    def __repr__(self) -> str:
        return f"<condition {self.op}>"


def _outputs(check: Check) -> Any:
    for part in check.parts:
        if isinstance(part, Output):
            yield part
        elif isinstance(part, Check):
            yield from _outputs(part)


def _refusing(name: str) -> Any:
    def refuse(self: Output, *args: Any, **kwargs: Any) -> NoReturn:
        self._at.refuse(name)

    refuse.__name__ = f"__{name}__"
    return refuse


_NEEDS_THE_VALUE: Final = (
    *(
        "bool",
        "str",
        "format",
        "int",
        "float",
        "complex",
        "index",
        "bytes",
        "hash",
        "fspath",
        "call",
        "await",
    ),
    *(
        "iter",
        "aiter",
        "len",
        "contains",
        "reversed",
        "next",
        "enter",
        "exit",
        "aenter",
        "aexit",
        "setitem",
        "delitem",
    ),
    *("neg", "pos", "abs", "invert", "round"),
    *(
        prefix + name
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
        for prefix in ("", "r")
    ),
)
for _name in _NEEDS_THE_VALUE:
    setattr(Output, f"__{_name}__", _refusing(_name))


def all_of(*conditions: bool | Check) -> bool:
    """Return the condition that all of these hold.

    Args:
        *conditions: Comparisons of outputs, and what this and its siblings return.
    """
    return cast("bool", Check("all_of", conditions))


def any_of(*conditions: bool | Check) -> bool:
    """Return the condition that one of these holds, or more."""
    return cast("bool", Check("any_of", conditions))


def none_of(*conditions: bool | Check) -> bool:
    """Return the condition that none of these holds."""
    return cast("bool", Check("none_of", conditions))


def is_in(value: object, options: Any) -> bool:
    """Return the condition that a value equals an item of a list.

    Args:
        value: An output, or a part of one.
        options: The list: constants, outputs, or an output that is a list.
    """
    return cast("bool", Check("in", (value, options)))


def exists(value: object) -> bool:
    """Return the condition that there is a value: its node was not skipped, and the path is there. ``null`` is one."""
    return cast("bool", Check("exists", (value,)))


def or_else(value: T, other: T) -> T:
    """Return a value, or another one where there is none: its node has no output, or the path is not there.

    Args:
        value: An output, or a part of one.
        other: A constant, or another output.
    """
    if isinstance(value, Output):
        return cast("T", Output(replace(value._at, or_else=(*value._at.or_else, other))))
    return value
