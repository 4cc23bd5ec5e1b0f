"""Reading a spec from JSON: all that is wrong with its form at once.

The reader looks at form only, and so it will take what it took today for ever: runs have recorded it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, Final, NoReturn, cast, get_args

from outlast_dag.spec.conditions import Compare, Comparison, Condition, Exists, Joined, Junction
from outlast_dag.spec.dag import DEFAULT_OPTIONS, INTERPRETER, DagSpec, FailurePolicy, Parameter
from outlast_dag.spec.nodes import (
    KINDS,
    ClosePolicy,
    CompensateWhen,
    ItemFailure,
    Node,
    Rule,
    TimeoutDecision,
    fields_of,
)
from outlast_dag.spec.options import OPTIONS, policy_of, read_options, without_defaults
from outlast_dag.spec.values import Bound, Constant, Ref, Root, Value, array, obj
from outlast_workflow.errors import DagValidationError, InvalidOptionError
from outlast_workflow.errors.documents import Problem
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.validation import duration_seconds, integer, validate_name

MAX_DEPTH: Final = 100
"""How deep values and conditions may be nested."""

_ADVICE: Final = "see the form that `outlast dag schema` prints"


class _FormError(Exception):
    """A part has the wrong form: the place in it, and what is wrong."""

    def __init__(self, place: str, message: str, kind: str = "bad_document") -> None:
        super().__init__(message)
        self.place = place
        self.message = message
        self.kind = kind


def read_spec(document: object) -> DagSpec:
    """Return the spec of a document.

    Args:
        document: What :attr:`DagSpec.document` gives, or what its JSON text was read into.

    Raises:
        DagValidationError: Its form is wrong. ``problems`` are all places.
    """
    reader = _Reader()
    spec = reader.spec(document)
    if spec is None or reader.problems:
        name = document.get("name") if isinstance(document, Mapping) else None
        raise DagValidationError(name if isinstance(name, str) else "without a name", reader.problems)
    return spec


class _Reader:
    """Reads one document, and keeps what is wrong with it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.node = ""

    def spec(self, document: object) -> DagSpec | None:
        """Return the spec; ``None`` if a part without which there is none is missing or wrong."""
        if not isinstance(document, Mapping):
            self._problem(_FormError("", "a DAG is a JSON object"))
            return None
        if document.get("interpreter", INTERPRETER) != INTERPRETER:
            self._problem(
                _FormError(
                    "interpreter", f"this version of Outlast knows only interpreter {INTERPRETER}: upgrade it"
                )
            )
            return None
        given = self._fields(document, _DAG_FIELDS, "", known=("$schema", "interpreter", "nodes"))
        nodes = self._nodes(document.get("nodes"), given.get("options", DEFAULT_OPTIONS))
        if "name" not in document:
            self._problem(_FormError("name", "is missing"))
        if "name" not in given or nodes is None:
            return None
        return DagSpec(**given, nodes=nodes)

    def _nodes(self, documents: object, defaults: ActivityOptions) -> tuple[Node, ...] | None:
        if not isinstance(documents, list):
            self._problem(_FormError("nodes", "must be a list of nodes"))
            return None
        nodes = [
            self._node(document, f"nodes[{index}]", defaults) for index, document in enumerate(documents)
        ]
        return tuple(node for node in nodes if node is not None)

    def _node(self, document: object, place: str, defaults: ActivityOptions) -> Node | None:
        if not isinstance(document, Mapping):
            self._problem(_FormError(place, "must be an object"))
            return None
        name = document.get("id")
        self.node = name if isinstance(name, str) else ""
        named = document.get("kind")
        kind = KINDS.get(named) if isinstance(named, str) else None
        node = None
        if kind is None:
            self._problem(_FormError(f"{place}.kind", f"must be one of {', '.join(KINDS)}"))
        else:
            readers = {field: _NODE_FIELDS[field] for field in fields_of(kind)}
            readers.update(_OF_KIND.get(kind.kind, {}))
            given = self._fields(document, readers, f"{place}.", known=("kind",))
            missing = [
                field.name
                for field in fields_of(kind).values()
                if field.default is MISSING and field.name not in document
            ]
            for field in missing:
                self._problem(_FormError(f"{place}.{field}", "is missing"))
            if "options" in given:
                given["options"] = without_defaults(given["options"], defaults)
            if not missing and all(
                field.name in given for field in fields_of(kind).values() if field.default is MISSING
            ):
                node = kind(**given)
        self.node = ""
        return node

    def _fields(
        self,
        document: Mapping[str, Any],
        readers: Mapping[str, Callable[[Any, str], Any]],
        prefix: str,
        known: Sequence[str],
    ) -> dict[str, Any]:
        """Return the fields of an object that can be read."""
        given = {}
        for name, value in document.items():
            if name in known:
                continue
            reader = readers.get(name)
            try:
                if reader is None:
                    expected = ", ".join([*known, *readers])
                    raise _FormError(f"{prefix}{name}", f"is not known here: there are {expected}")
                given[name] = reader(value, f"{prefix}{name}")
            except _FormError as error:
                self._problem(error)
        return given

    def _problem(self, error: _FormError) -> None:
        advice = _ADVICE if error.kind == "bad_document" else ""
        self.problems.append(Problem(error.kind, self.node, error.place, error.message, advice))


def _wrong(place: str, message: str) -> NoReturn:
    raise _FormError(place, message)


def _text(value: Any, place: str) -> str:
    return value if isinstance(value, str) else _wrong(place, "must be text")


def _name(value: Any, place: str) -> str:
    return cast("str", _checked(place, validate_name, "name", value))


def _flag(value: Any, place: str) -> bool:
    return value if isinstance(value, bool) else _wrong(place, "must be true or false")


def _seconds(value: Any, place: str) -> int | float:
    return cast("int | float", _checked(place, duration_seconds, "duration", value))


def _count(value: Any, place: str) -> int:
    return cast("int", _checked(place, integer, "number", value, 0))


def _checked(place: str, check: Callable[..., Any], *args: Any) -> Any:
    try:
        return check(*args)
    except InvalidOptionError as error:
        kind = "timeout_out_of_range" if check is duration_seconds else "bad_document"
        raise _FormError(place, error.message, kind) from None


def _one_of(names: Any) -> Callable[[Any, str], Any]:
    allowed = get_args(names)

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, str) or value not in allowed:
            _wrong(place, f"must be one of {', '.join(allowed)}")
        return value

    return read


def _list_of(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def read_all(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            _wrong(place, "must be a list")
        return tuple(read(item, f"{place}[{index}]") for index, item in enumerate(value))

    return read_all


def _value(document: Any, place: str, depth: int = 0) -> Value:
    if depth > MAX_DEPTH:
        _wrong(place, f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(document, Mapping):
        _wrong(place, 'must be an object such as {"is": 5} or {"of": "fetch", "path": ["rows"]}')
    roots = [name for name in ("is", "array", "object", *get_args(Root)) if name in document]
    if len(roots) != 1:
        _wrong(place, "must have one of is, of, param, bound, array and object")
    (root,) = roots
    content = document[root]
    allowed = {root, "path", "or_else"} if root in get_args(Root) else {root}
    for name in document.keys() - allowed:
        _wrong(f"{place}.{name}", f"is not known beside {root}")
    if root == "is":
        return Constant(content)
    if root == "array":
        if not isinstance(content, list):
            _wrong(f"{place}.array", "must be a list")
        return array(_value(item, f"{place}.array[{index}]", depth + 1) for index, item in enumerate(content))
    if root == "object":
        if not isinstance(content, Mapping):
            _wrong(f"{place}.object", "must be an object")
        return obj(
            (name, _value(member, f"{place}.object.{name}", depth + 1)) for name, member in content.items()
        )
    name = _text(content, f"{place}.{root}")
    if root == "bound" and name not in get_args(Bound):
        _wrong(f"{place}.bound", f"must be one of {', '.join(get_args(Bound))}")
    path = document.get("path", [])
    if not isinstance(path, list) or not all(type(step) in (str, int) for step in path):
        _wrong(f"{place}.path", "must be a list of keys and positions")
    other = document.get("or_else")
    return Ref(
        cast("Root", root),
        name,
        tuple(path),
        None if other is None else _value(other, f"{place}.or_else", depth + 1),
    )


def _constant(document: Any, place: str) -> Constant:
    value = _value(document, place)
    return value if isinstance(value, Constant) else _wrong(place, 'must be a constant: {"is": …}')


def _condition(document: Any, place: str, depth: int = 0) -> Condition:
    if depth > MAX_DEPTH:
        _wrong(place, f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(document, Mapping):
        _wrong(place, 'must be an object such as {"op": "==", "left": …, "right": …}')
    op = document.get("op")
    parts: set[str]
    if op in get_args(Comparison):
        parts = {"left", "right"}
    elif op == "exists":
        parts = {"value"}
    elif op in get_args(Junction):
        parts = {"of"}
    else:
        known = (*get_args(Comparison), "exists", *get_args(Junction))
        _wrong(f"{place}.op", f"must be one of {', '.join(known)}")
    if document.keys() != {"op", *parts}:
        _wrong(place, f"with the op {op} has {', '.join(sorted(parts))} and nothing else")
    if op == "exists":
        value = _value(document["value"], f"{place}.value")
        return Exists(value if isinstance(value, Ref) else _wrong(f"{place}.value", "must be a reference"))
    if op in get_args(Comparison):
        return Compare(
            cast("Comparison", op),
            _value(document["left"], f"{place}.left"),
            _value(document["right"], f"{place}.right"),
        )
    if not isinstance(document["of"], list):
        _wrong(f"{place}.of", "must be a list of conditions")
    return Joined(
        cast("Junction", op),
        tuple(
            _condition(part, f"{place}.of[{index}]", depth + 1) for index, part in enumerate(document["of"])
        ),
    )


def _options(document: Any, place: str) -> ActivityOptions:
    if not isinstance(document, Mapping):
        _wrong(place, "must be an object")
    for name in document.keys() - set(OPTIONS):
        _wrong(f"{place}.{name}", f"is not known here: there are {', '.join(OPTIONS)}")
    given = dict(document)
    if "retry_policy" in given:
        policy = given["retry_policy"]
        if not isinstance(policy, Mapping):
            _wrong(f"{place}.retry_policy", "must be an object")
        given["retry_policy"] = _checked(f"{place}.retry_policy", policy_of, policy)
    options, problems = read_options(given)
    for kind, message in problems:
        raise _FormError(place, message, kind)
    return options


def _defaults(document: Any, place: str) -> ActivityOptions:
    return DEFAULT_OPTIONS.merged(_options(document, place))


def _parameter(document: Any, place: str) -> Parameter:
    if isinstance(document, str):
        return Parameter(document)
    if not isinstance(document, Mapping) or document.keys() != {"name", "default"}:
        _wrong(place, 'must be a name, or an object with "name" and "default"')
    return Parameter(_text(document["name"], f"{place}.name"), False, document["default"])


_DAG_FIELDS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "name": _name,
    "version": _text,
    "timeout": _seconds,
    "reserve": _seconds,
    "max_parallel": _count,
    "failure": _one_of(FailurePolicy),
    "compensate_on_cancel": _flag,
    "cancel_on": _name,
    "options": _defaults,
    "params": _list_of(_parameter),
    "output": _value,
}

_NODE_FIELDS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "id": _text,
    "after": _list_of(_text),
    "rule": _one_of(Rule),
    "skip_when": _condition,
    "on_failure": _text,
    "compensate": _text,
    "compensate_when": _one_of(CompensateWhen),
    "type": _name,
    "args": _list_of(_value),
    "options": _options,
    "over": _value,
    "max_items": _count,
    "concurrency": _count,
    "on_item_failure": _one_of(ItemFailure),
    "collect": _flag,
    "chunks_of": _count,
    "timeout": _seconds,
    "task_queue": _name,
    "priority": _count,
    "parent_close_policy": _one_of(ClosePolicy),
    "seconds": _seconds,
    "until": _value,
    "event": _name,
    "match": _condition,
    "on_timeout": _constant,
    "max_iterations": _count,
    "max_duration": _seconds,
    "delay": _seconds,
    "allow": _list_of(_name),
    "max_nodes": _count,
    "run_timeout": _seconds,
}
_OF_KIND: Final[dict[str, dict[str, Callable[[Any, str], Any]]]] = {
    "approval": {"on_timeout": _one_of(TimeoutDecision)},
    "repeat": {"until": _condition},
}
"""Fields that mean something else in a kind than elsewhere."""
