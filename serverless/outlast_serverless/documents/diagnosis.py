"""Why the schema refuses a definition: every reason, at its exact place.

A validator says of a ``oneOf`` only that no branch fits. Here the branch is chosen that the writer meant: by the key or
constant that tells the branches apart, else by the kind of the value, else by what is wrong with it least. Then only
that branch is looked into. The validator stays the judge: this is asked only about what it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from outlast_serverless.documents.schemas import Schema, matches
from outlast_serverless.plan.kinds import KINDS, kinds_of
from outlast_serverless.plan.pointers import child
from outlast_serverless.rules.finding import Finding, near, quoted

OTHER_NAMES: Final[Mapping[str, str]] = {
    "uri": "endpoint",
    "url": "endpoint",
    "operation": "operationId",
    "parallel": "branches",
    "foreach": "do",
    "args": "arguments",
    "env": "environment",
    "params": "parameters",
    "maxAttempts": "count",
}
"""What writers call a property, and how it is called."""
KEYWORDS: Final = frozenset(
    {
        "$ref",
        "type",
        "const",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "minItems",
        "minProperties",
        "maxProperties",
        "required",
        "properties",
        "additionalProperties",
        "unevaluatedProperties",
        "items",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
    }
)
"""What is understood; a test holds that the schemas use no more."""
NO_HINT: Final = "leave it out"
NEEDS: Final = "it needs one of "
IGNORED: Final = frozenset(["$id", "$schema", "$defs", "title", "description", "default", "format"])
_TOLD: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "integer": "an integer",
    "boolean": "true or false",
    "number": "a number",
    "null": "null",
}


def diagnose(definition: Any, schema: Schema) -> list[Finding]:
    """Return why a schema refuses a definition.

    Args:
        definition: The definition.
        schema: The schema.
    """
    return _joined(list(_Diagnosis(schema.document).check(schema.document, definition, "")))


def _joined(found: list[Finding]) -> list[Finding]:
    """Tell of an unknown key once, though a mapping and its branches do not know it and miss another."""
    unknown: dict[str, Finding] = {}
    for one in found:
        if one.code == "unknown_property":
            known = unknown.setdefault(one.pointer, one)
            if known.hint == NO_HINT:
                unknown[one.pointer] = one
    kept: dict[Finding, None] = {}
    for one in found:
        if one.code == "missing_property" and one.message.startswith(NEEDS):
            below = [key for key in unknown if key.rpartition("/")[0] == one.pointer]
            for key in below:
                if unknown[key].hint == NO_HINT:
                    unknown[key] = replace(unknown[key], hint=one.message)
            if below:
                continue
        kept[one] = None
    told: dict[Finding, None] = {}
    for one in kept:
        told[unknown[one.pointer] if one.code == "unknown_property" else one] = None
    return list(told)


class _Diagnosis:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.fitting: dict[tuple[int, int], bool] = {}
        self.definitions: Mapping[str, Any] = root["$defs"]

    def check(self, schema: Any, value: Any, pointer: str) -> Iterator[Finding]:
        """Yield what a schema has against a value."""
        if isinstance(schema, bool):
            if not schema:
                yield Finding("unknown_property", pointer, "it cannot stand here", "leave it out", key=True)
            return
        if schema.get("title") == "Task":
            yield from self._task(value, pointer)
            return
        wanted = schema.get("type")
        if wanted is not None and not _is(value, wanted):
            yield _wrong_type(wanted, value, pointer)
            return
        yield from self._of_this(schema, value, pointer)
        if "$ref" in schema:
            yield from self.check(self._target(schema["$ref"]), value, pointer)
        for part in schema.get("allOf", ()):
            yield from self.check(part, value, pointer)
        if "oneOf" in schema:
            yield from self._branch(schema["oneOf"], value, pointer, once=True)
        if "anyOf" in schema:
            yield from self._branch(schema["anyOf"], value, pointer, once=False)
        if "if" in schema:
            then = "then" if not any(self.check(schema["if"], value, pointer)) else "else"
            if then in schema:
                yield from self.check(schema[then], value, pointer)
        if isinstance(value, dict):
            yield from self._mapping(schema, value, pointer)
        elif isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                yield from self.check(schema["items"], item, child(pointer, index))

    def _target(self, reference: str) -> Any:
        return self.definitions[reference.removeprefix("#/$defs/")]

    def _of_this(self, schema: Mapping[str, Any], value: Any, pointer: str) -> Iterator[Finding]:
        if "const" in schema and value != schema["const"]:
            yield Finding("wrong_value", pointer, f"it must be {schema['const']}")
        if "enum" in schema and value not in schema["enum"]:
            yield _not_listed(schema["enum"], value, pointer)
        if "not" in schema and not any(self.check(schema["not"], value, pointer)):
            inner = schema["not"].get("required")
            said = f"{inner[0]} cannot stand here" if inner else f"it cannot be {value}"
            hint = "leave it out, or change what excludes it" if inner else ""
            yield Finding("wrong_value", child(pointer, inner[0]) if inner else pointer, said, hint)
        if isinstance(value, str):
            if "pattern" in schema and not matches(schema["pattern"])(value):
                yield _wrong_format(schema, value, pointer)
            if len(value) < schema.get("minLength", 0):
                yield Finding("wrong_format", pointer, "it is empty")
        if isinstance(value, int | float) and not isinstance(value, bool):
            least, most = schema.get("minimum"), schema.get("maximum")
            if (least is not None and value < least) or (most is not None and value > most):
                yield Finding("wrong_value", pointer, f"it must be from {least} to {most}")
        if isinstance(value, list) and len(value) < schema.get("minItems", 0):
            yield Finding("too_few", pointer, "it is empty, and needs at least one item")

    def _mapping(self, schema: Mapping[str, Any], value: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if len(value) < schema.get("minProperties", 0):
            yield Finding("too_few", pointer, "it is empty, and needs at least one key")
        if len(value) > schema.get("maxProperties", len(value)):
            names = ", ".join(map(quoted, list(value)[:5]))
            yield Finding(
                "too_many",
                pointer,
                f"it has {len(value)} keys ({names}), and can have one",
                "begin each with a `-` of its own",
            )
        properties: Mapping[str, Any] = schema.get("properties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]
        for name, needed in schema.get("dependentRequired", {}).items():
            missing += [one for one in needed if name in value and one not in value]
        unknown: list[str] = []
        if schema.get("unevaluatedProperties") is False:
            known = self._known(schema, value)
            unknown = [name for name in value if name not in known]
            if missing or unknown:
                yield from _strange(missing, unknown, sorted(known), pointer)
        else:
            yield from _strange(missing, [], [], pointer)
        for name, inner in properties.items():
            if name in value:
                yield from self.check(inner, value[name], child(pointer, name))
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and len(value) <= schema.get("maxProperties", len(value)):
            for name, inner in value.items():
                if name not in properties:
                    yield from self.check(others, inner, child(pointer, name))

    def _known(self, schema: Mapping[str, Any], value: dict[str, Any]) -> frozenset[str]:
        """Return the properties that a schema knows, in the branch that is meant."""
        found = frozenset(schema.get("properties", ()))
        if schema.get("additionalProperties") is True:
            found |= frozenset(value)
        if "$ref" in schema:
            found |= self._known(self._target(schema["$ref"]), value)
        for part in schema.get("allOf", ()):
            found |= self._known(part, value)
        for branches in (schema.get("oneOf"), schema.get("anyOf")):
            if branches:
                fitting = [branch for branch in branches if self._fits(branch, value)]
                meant = None if fitting else self._meant(branches, value)
                # Where no branch is meant, each of their names may be.
                for branch in fitting or (branches if meant is None else [meant]):
                    found |= self._known(branch, value) if isinstance(branch, dict) else frozenset()
        return found

    def _fits(self, schema: Any, value: Any) -> bool:
        """Return whether a value fits a schema; asked once of each pair, or the work would double at each level."""
        pair = (id(schema), id(value))
        if pair not in self.fitting:
            self.fitting[pair] = not any(self.check(schema, value, ""))
        return self.fitting[pair]

    def _branch(self, branches: list[Any], value: Any, pointer: str, *, once: bool) -> Iterator[Finding]:
        told = [list(self.check(branch, value, pointer)) for branch in branches]
        fitting = [branch for branch, findings in zip(branches, told, strict=True) if not findings]
        if len(fitting) == 1 or (fitting and not once):
            return
        if len(fitting) > 1:
            names = [name for branch in fitting for name in branch.get("required", ())]
            chosen = " and ".join(map(quoted, names)) or "several forms"
            yield Finding("too_many", pointer, f"{chosen} exclude each other here", "keep one of them")
            return
        meant = self._meant(branches, value)
        if meant is not None:
            yield from told[branches.index(meant)]
            return
        yield from self._no_branch(branches, told, value, pointer)

    def _no_branch(
        self, branches: list[Any], told: list[list[Finding]], value: Any, pointer: str
    ) -> Iterator[Finding]:
        kinds = [kind for branch in branches for kind in [self._type(branch)] if kind]
        if kinds and not any(_is(value, kind) for kind in kinds):
            yield _wrong_type(list(dict.fromkeys(kinds)), value, pointer)
            return
        wanted = [name for branch in branches for name in self._required(branch)]
        if isinstance(value, dict) and wanted:
            choices = list(dict.fromkeys(wanted))
            guesses = [(name, near(name, choices)) for name in value]
            for name, close in guesses:
                if close is not None and name not in choices:
                    yield Finding(
                        "unknown_property",
                        child(pointer, name),
                        f"{quoted(name)} is unknown here",
                        f"did you mean `{close}`?",
                        key=True,
                    )
                    return
            yield Finding("missing_property", pointer, NEEDS + f"{', '.join(map(quoted, choices))}")
            return
        yield from min(told, key=len)

    def _meant(self, branches: list[Any], value: Any) -> Any:
        """Return the branch that a value is meant to be, or ``None`` if none can be told."""
        fitting = [
            one for one in branches if isinstance(one, dict) and _is(value, self._type(one) or _kind(value))
        ]
        if len(fitting) <= 1 or not isinstance(value, dict):
            if len(fitting) > 1 and isinstance(value, str):
                # An expression is told by how it begins; of the others the last is the most general.
                begins = value.lstrip().startswith("${")
                expressions = [one for one in fitting if self._is_expression(one)]
                others = [one for one in fitting if not self._is_expression(one)]
                chosen = expressions if begins and expressions else others
                return chosen[-1] if chosen else None
            return fitting[0] if fitting else None
        if all(self._required(one) <= value.keys() for one in fitting):
            fitting = [one for one in fitting if self._constants(one).items() <= value.items()] or fitting
        having = [one for one in fitting if self._required(one) and self._required(one) <= value.keys()]
        if len(having) == 1:
            return having[0]
        # The branch with the most of its own keys there.
        own = {id(one): len(self._required(one) & value.keys()) for one in fitting}
        best = max(own.values())
        if best and list(own.values()).count(best) == 1:
            return next(one for one in fitting if own[id(one)] == best)
        known = {id(one): len(self._known(one, value) & value.keys()) for one in fitting}
        best = max(known.values())
        if best and list(known.values()).count(best) == 1:
            return next(one for one in fitting if known[id(one)] == best)
        return None

    def _is_expression(self, schema: Any) -> bool:
        return self._resolved(schema).get("title") == "RuntimeExpression"

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._target(schema["$ref"])
        return schema

    def _required(self, schema: Any) -> frozenset[str]:
        if not isinstance(schema, dict):
            return frozenset()
        found = frozenset(schema.get("required", ()))
        if "$ref" in schema:
            found |= self._required(self._target(schema["$ref"]))
        return found

    def _constants(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: inner["const"] for name, inner in schema.get("properties", {}).items() if "const" in inner
        }

    def _type(self, schema: Any) -> str | None:
        """Return the one kind of value that a schema accepts, or ``None``."""
        if not isinstance(schema, dict):
            return None
        if isinstance(schema.get("type"), str):
            return str(schema["type"])
        if "$ref" in schema:
            return self._type(self._target(schema["$ref"]))
        if "required" in schema or "properties" in schema:
            return "object"
        for branches in (schema.get("oneOf"), schema.get("anyOf"), schema.get("allOf")):
            if branches:
                kinds = {self._type(branch) for branch in branches}
                return kinds.pop() if len(kinds) == 1 else None
        return None

    def _task(self, value: Any, pointer: str) -> Iterator[Finding]:
        """Yield what is wrong with a task, by the definition of its own kind."""
        if not isinstance(value, dict):
            yield _wrong_type("object", value, pointer)
            return
        kinds = kinds_of(value)
        if not kinds:
            for name in value:
                close = near(name, KINDS)
                if close is not None:
                    yield Finding(
                        "unknown_property",
                        child(pointer, name),
                        f"{quoted(name)} is no kind of task",
                        f"did you mean `{close}`?",
                        key=True,
                    )
                    return
            yield Finding(
                "not_a_task", pointer, "it says not what to do", f"give it one of {', '.join(KINDS)}"
            )
            return
        if len(kinds) > 1:
            yield Finding(
                "several_kinds",
                pointer,
                f"it is a task of several kinds: {', '.join(kinds)}",
                "make a task of each, or put them under `do`",
            )
            return
        kind = kinds[0]
        definition = self.definitions[f"{kind}Task"]
        if kind == "call":
            yield from self._call(definition["oneOf"], value, pointer)
        else:
            yield from self.check(definition, value, pointer)

    def _call(self, branches: list[Any], value: dict[str, Any], pointer: str) -> Iterator[Finding]:
        function = branches[-1]
        for branch in branches[:-1]:
            if branch["allOf"][1]["properties"]["call"]["const"] == value["call"]:
                yield from self.check(branch, value, pointer)
                return
        yield from self.check(function, value, pointer)


def _strange(missing: list[str], unknown: list[str], known: list[str], pointer: str) -> Iterator[Finding]:
    """Yield what is missing and what is unknown; one finding where the one is meant to be the other."""
    for name in unknown:
        close = OTHER_NAMES.get(name)
        if close not in missing:
            close = near(name, missing) or near(name, known)
        hint = NO_HINT if close is None else f"did you mean `{close}`?"
        said = f"{quoted(name)} is unknown here"
        if close in missing:
            missing = [one for one in missing if one != close]
            said += f", and `{close}` is missing"
        yield Finding("unknown_property", child(pointer, name), said, hint, key=True)
    for name in missing:
        yield Finding("missing_property", pointer, f"`{name}` is missing")


def _kind(value: Any) -> str:
    for kind in ("boolean", "integer", "number", "string", "array", "object"):
        if _is(value, kind):
            return kind
    return "null"


def _is(value: Any, kind: str) -> bool:
    if kind == "object":
        return isinstance(value, dict)
    if kind == "array":
        return isinstance(value, list)
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "number" or isinstance(value, int) or value.is_integer()


def _wrong_type(wanted: str | list[str], value: Any, pointer: str) -> Finding:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    told = " or ".join(_TOLD[kind] for kind in kinds)
    hint = ""
    if "string" in kinds and isinstance(value, int | float | bool):
        hint = "write it in quotes"
    return Finding("wrong_type", pointer, f"it must be {told}, and is {_TOLD[_kind(value)]}", hint)


def _not_listed(listed: list[Any], value: Any, pointer: str) -> Finding:
    close = near(value, [one for one in listed if isinstance(one, str)]) if isinstance(value, str) else None
    hint = "" if close is None else f"did you mean `{close}`?"
    return Finding("wrong_value", pointer, f"it must be one of {', '.join(map(str, listed))}", hint)


_FORMATS: Final = {
    "WorkflowDSL": ("it is no semantic version", "write it as '1.0.3'"),
    "WorkflowVersion": ("it is no semantic version", "write it as '0.1.0'"),
    "WorkflowNamespace": ("it is no DNS label", "use letters, digits and inner hyphens, at most 63"),
    "WorkflowName": ("it is no DNS label", "use letters, digits and inner hyphens, at most 63"),
    "DurationLiteral": ("it is no duration", "write it as PT15S, as {seconds: 15}, or as ${ … } on one line"),
    "RuntimeExpression": ("it is no runtime expression", "write it as ${ … }, on one line"),
    "LiteralUri": ("it is no URI", "write it as https://host/path, or as ${ … } on one line"),
    "LiteralUriTemplate": ("it is no URI", "write it as https://host/path, or as ${ … } on one line"),
    "WithGRPCServiceHost": ("it is no host name", "write it without a scheme and a port"),
}


def _wrong_format(schema: Mapping[str, Any], value: str, pointer: str) -> Finding:
    said, hint = _FORMATS.get(schema.get("title", ""), ("it has not the form that is wanted", ""))
    return Finding("wrong_format", pointer, said, hint)
