"""Random documents: the twelve kinds of tasks, four deep, from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.serverless.oracle.oracle import Published

DEPTH: Final = 4
LONGEST_S: Final = 1_000_000
_WORKFLOW_S: Final = 40 * LONGEST_S
_VALUES: Final = (
    ".", ".n", ".n + 1", "{n: ((.n // 0) + 1)}", "{n: .}", "[., 1]", "$context", "{n: $context}", "$input", "type",
    "length", "keys", ".a.b", "1, 2", "empty", '"text"', "[.n, 3]", "{n: $task.name}", "$workflow.input", "null",
)  # fmt: skip
_CONDITIONS: Final = (
    "true", "false", ". != null", "$context == null", ".n", "(.n // 0) < 2", 'type == "object"', "length > 1",
)  # fmt: skip
_TYPES: Final = ("oracle.a", "oracle.b", "oracle.c")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random document, and what it needs.

    Attributes:
        definition: The definition.
        input: Its input.
        registered: The definitions that it may run, by name.
        events: What is published meanwhile.
    """

    definition: dict[str, Any]
    input: Any
    registered: dict[str, dict[str, Any]]
    events: list[Published]


def draw(seed: int) -> Drawn:
    """Return the document of a seed."""
    return _Drawing(seed).document()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = random.Random(f"document {seed}")
        self._names = 0
        self._tasks = 0
        self._registered: dict[str, dict[str, Any]] = {}
        self._functions: dict[str, Any] = {}
        self._timeouts: dict[str, Any] = {}

    def document(self) -> Drawn:
        rng = self._rng
        for number in range(rng.randint(0, 2)):
            self._functions[f"f{number}"] = self._task(DEPTH - 1, (), plain=True)
        if rng.random() < 0.3:
            name = f"child-{self._seed}"
            # Nothing of the parent's is known to it: no functions, and no timeouts by name.
            functions, self._functions = self._functions, {}
            timeouts, self._timeouts = self._timeouts, {}
            self._registered[name] = self._definition(name, self._list(DEPTH - 2, (), most=2))
            self._functions, self._timeouts = functions, timeouts
        definition = self._definition(f"drawn-{self._seed}", self._list(0, (), most=4))
        definition["timeout"] = {"after": f"PT{rng.choice((_WORKFLOW_S, self._seconds()))}S"}
        use = {"functions": self._functions, "timeouts": self._timeouts}
        if kept := {key: value for key, value in use.items() if value}:
            definition["use"] = kept
        instants = sorted(rng.randint(1, 2 * LONGEST_S) for _ in range(6))
        events = [Published(float(at), rng.choice(_TYPES), rng.randint(0, 3)) for at in instants]
        given = rng.choice((None, {"n": 1}, {"n": 0, "a": {"b": 2}}, [1, 2], 3, "x"))
        return Drawn(definition, given, self._registered, events)

    def _definition(self, name: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"dsl": "1.0.3", "namespace": "oracle", "name": name, "version": "0.1.0"}
        found: dict[str, Any] = {"document": head, "do": tasks}
        if self._rng.random() < 0.2:
            found["input"] = {"from": self._plain()}
        if self._rng.random() < 0.2:
            found["output"] = {"as": self._rng.choice(("{out: .}", ".", "[., $context]"))}
        return found

    # --- lists and tasks ----------------------------------------------------------------------------------------------

    def _list(self, depth: int, seen: tuple[str, ...], most: int = 3) -> list[dict[str, Any]]:
        count = self._rng.randint(1, most)
        names = [self._name() for _ in range(count)]
        return [{name: self._task(depth, seen, names[index + 1 :])} for index, name in enumerate(names)]

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _task(
        self, depth: int, seen: tuple[str, ...], later: Any = (), *, plain: bool = False
    ) -> dict[str, Any]:
        rng = self._rng
        self._tasks += 1
        kinds = ["set", "set", "switch", "raise", "wait", "emit"]
        if not plain:
            kinds += ["listen"]
        if depth < DEPTH and self._tasks < 40:
            kinds += ["do", "do", "for", "for", "fork", "try", "try", "try"]
            if self._functions and not plain:
                kinds.append("call")
            if self._registered:
                kinds.append("run")
        kind = rng.choice(kinds)
        task: dict[str, Any] = getattr(self, f"_{kind}")(depth + 1, seen, later)
        if rng.random() < 0.1:
            task["if"] = self._condition(seen)
        if rng.random() < 0.12:
            given: dict[str, Any] = {"from": self._value(seen).replace("$input", "$task.input")}
            if rng.random() < 0.2:
                given["schema"] = self._schema()
            task["input"] = given
        if rng.random() < 0.15 or kind == "emit":
            output: dict[str, Any] = {"as": ".data" if kind == "emit" else self._value(seen)}
            if rng.random() < 0.2:
                output["schema"] = self._schema()
            task["output"] = output
        if rng.random() < 0.15:
            task["export"] = {"as": rng.choice((".", "$output", "[$context, 1] | flatten", "{n: .}"))}
        if rng.random() < 0.12:
            task["timeout"] = self._timeout(plain=plain)
        if rng.random() < 0.12 and not plain:
            task["then"] = self._then(later)
        return task

    def _schema(self) -> dict[str, Any]:
        return {"document": {"type": self._rng.choice(("object", "array", "number", "string"))}}

    def _then(self, later: Any) -> str:
        choices = ["continue", "continue", "exit", "end", *later, *later]
        return str(self._rng.choice(choices))

    def _value(self, seen: tuple[str, ...]) -> str:
        if seen and self._rng.random() < 0.3:
            return f"${self._rng.choice(seen)}"
        return self._rng.choice(_VALUES)

    def _plain(self) -> str:
        return self._rng.choice((".", ".n", "{n: .}", "[., 2]", "type"))

    def _condition(self, seen: tuple[str, ...]) -> str:
        if seen and self._rng.random() < 0.3:
            return f"${self._rng.choice(seen)} != 1"
        return self._rng.choice(_CONDITIONS)

    def _seconds(self) -> int:
        return self._rng.randint(1, LONGEST_S)

    def _length(self) -> Any:
        seconds = self._seconds()
        return self._rng.choice((f"PT{seconds}S", {"seconds": seconds}, f"${{ {{seconds: {seconds}}} }}"))

    def _timeout(self, *, plain: bool) -> Any:
        rng = self._rng
        if rng.random() < 0.1:
            return {"after": '${ "PT0S" }'}
        if rng.random() < 0.2 and not plain and not self._in_child:
            name = f"d{len(self._timeouts)}"
            self._timeouts[name] = {"after": self._length()}
            return name
        return {"after": self._length()}

    @property
    def _in_child(self) -> bool:
        """Whether the definition that is drawn is not that of the seed, which names timeouts."""
        return not self._functions and not self._registered

    # --- kinds --------------------------------------------------------------------------------------------------------

    def _set(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        if self._rng.random() < 0.3:
            return {"set": {"n": f"${{ {self._value(seen)} }}", "k": self._rng.randint(0, 3)}}
        return {"set": f"${{ {self._value(seen)} }}"}

    def _switch(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        cases: list[dict[str, Any]] = [
            {f"c{number}": {"when": self._condition(seen), "then": self._then(later)}}
            for number in range(self._rng.randint(1, 2))
        ]
        if self._rng.random() < 0.3:
            cases.append({"other": {"then": self._then(later)}})
        return {"switch": cases}

    def _raise(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        status = self._rng.randint(501, 503)
        return {"raise": {"error": {"type": f"https://oracle/{status}", "status": status}}}

    def _wait(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        return {"wait": self._length()}

    def _emit(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        return {"emit": {"event": {"with": {"type": "oracle.out", "data": f"${{ {self._value(seen)} }}"}}}}

    def _do(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        return {"do": self._list(depth, seen)}

    def _for(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        each, at = f"item{depth}", f"index{depth}"
        items = self._rng.choice(("[1, 2]", "[1, 2, 3]", "[.n, 3]", ".n", "null", "."))
        found: dict[str, Any] = {
            "for": {"each": each, "at": at, "in": f"${{ {items} }}"},
            "do": self._list(depth, (*seen, each, at), most=2),
        }
        if self._rng.random() < 0.3:
            found["while"] = self._condition((*seen, each, at))
        return found

    def _fork(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        branches = []
        for _ in range(self._rng.randint(2, 3)):
            # Each goes on at an instant of its own.
            tasks = [{self._name(): {"wait": self._length()}}, *self._list(depth, seen, most=2)]
            branches.append({self._name(): {"do": tasks}})
        return {"fork": {"branches": branches, "compete": self._rng.random() < 0.5}}

    def _try(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        rng = self._rng
        catch: dict[str, Any] = {}
        name = f"error{depth}"
        if rng.random() < 0.5:
            catch["as"] = name
        else:
            name = "error"
        if rng.random() < 0.3:
            catch["errors"] = {"with": {"status": rng.choice((400, 408, 501, 502))}}
        if rng.random() < 0.2:
            catch["when"] = f"${name}.status != 502"
        if rng.random() < 0.4:
            limit: dict[str, Any] = {"attempt": {"count": rng.randint(1, 2)}}
            if rng.random() < 0.3:
                limit["attempt"]["duration"] = self._length()
            if rng.random() < 0.3:
                limit["duration"] = self._length()
            backoff = rng.choice(("constant", "linear", "exponential"))
            catch["retry"] = {"delay": self._length(), "backoff": {backoff: {}}, "limit": limit}
        if rng.random() < 0.6:
            told: Any = {"status": f"${{ ${name}.status }}", "from": f"${{ ${name}.instance }}"}
            catch["do"] = [{self._name(): {"set": told}}, *self._list(depth, seen, most=1)]
        elif rng.random() < 0.3:
            catch["then"] = self._then(later)
        return {"try": self._list(depth, seen), "catch": catch}

    def _listen(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        rng = self._rng
        filters = [{"with": {"type": kind}} for kind in rng.sample(_TYPES, 2)]
        to: dict[str, Any] = rng.choice(
            (
                {"one": filters[0]},
                {"any": filters},
                {"all": filters},
                {"any": filters, "until": "length == 2"},
            )
        )
        found: dict[str, Any] = {"listen": {"to": to}}
        if rng.random() < 0.3:
            each, at = f"item{depth}", f"index{depth}"
            value = rng.choice((".", f"[${each}, ${at}]", "$context"))
            found["foreach"] = {"item": each, "at": at, "do": [{self._name(): {"set": f"${{ {value} }}"}}]}
        return found

    def _call(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"call": self._rng.choice(sorted(self._functions))}
        if self._rng.random() < 0.8:
            found["with"] = {"n": f"${{ {self._value(seen)} }}"}
        return found

    def _run(self, depth: int, seen: tuple[str, ...], later: Any) -> dict[str, Any]:
        (name,) = self._registered
        asked = {
            "namespace": "oracle",
            "name": name,
            "version": "0.1.0",
            "input": {"n": f"${{ {self._value(seen)} }}"},
        }
        return {"run": {"workflow": asked}}
