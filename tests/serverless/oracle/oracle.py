"""The oracle: what a definition gives, worked out naively and in memory, by none of the interpreter's code.

It walks the JSON of a definition with asyncio on a virtual loop, and asks jq itself. It knows no history, no commits
and no workers. Where two things are due at almost the same instant, their order is not its business: it says that it is
uncertain.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeVar

T = TypeVar("T")
# It has no types.
jq: Final[Any] = import_module("jq")
ERRORS: Final = "https://serverlessworkflow.io/spec/1.0.0/errors/"
NEAR_S: Final = 60.0
"""Instants that are nearer than this are no order: a worker that dies takes some time."""
_WHOLE: Final = re.compile(r"\s*\$\{(.+)\}\s*", re.S)
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


class Fault(Exception):
    """An error of the DSL."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        super().__init__(str(error))


class End(Exception):
    """A task said ``end``."""

    def __init__(self, output: Any) -> None:
        self.output = output
        super().__init__("end")


class Uncertain(Exception):
    """What happens first is not certain."""


def fault(kind: str, status: int, pointer: str) -> Fault:
    """Return a standard error."""
    return Fault({"type": ERRORS + kind, "status": status, "instance": pointer})


@lru_cache(10_000)
def _compiled(text: str, names: tuple[str, ...]) -> Any:
    bound = "".join(f"$__all.v[{number}] as ${name} | " for number, name in enumerate(names))
    return jq.compile(f". as $__all | {bound}$__all.d | ({text}\n)")


def evaluated(text: str, data: Any, variables: Mapping[str, Any]) -> Any:
    """Return what jq gives.

    Raises:
        ValueError: It fails.
    """
    names = tuple(sorted(variables))
    found = _compiled(text, names).input_value({"d": data, "v": [variables[name] for name in names]}).all()
    return found[0] if len(found) == 1 else (found or None)


@dataclass
class Context:
    """The context of a list of tasks; a branch of a fork has its own."""

    value: Any = None
    outer: Context | None = None

    def export(self, value: Any) -> None:
        """Replace it, here and outside."""
        here: Context | None = self
        while here is not None:
            here.value = value
            here = here.outer


@dataclass
class Published:
    """An event that somebody publishes at an instant."""

    at: float
    type: str
    data: Any


@dataclass
class World:
    """What runs share: documents by name, listeners, and the instants at which something is due."""

    documents: dict[str, dict[str, Any]]
    listeners: list[asyncio.Queue[Published]] = field(default_factory=list)
    due: list[float] = field(default_factory=list)

    def arm(self, seconds: float) -> None:
        """Note that something is due then.

        Raises:
            Uncertain: Something else is due at about the same time.
        """
        at = asyncio.get_running_loop().time() + seconds
        if any(abs(at - other) < NEAR_S for other in self.due):
            raise Uncertain
        self.due.append(at)


@dataclass(frozen=True)
class Here:
    """Where a list of tasks is, and what it sees."""

    context: Context
    variables: Mapping[str, Any]

    def with_(self, **more: Any) -> Here:
        """Return this with more variables."""
        return Here(self.context, {**self.variables, **more})


class Oracle:
    """One run of a definition.

    Args:
        definition: The definition.
        given: Its raw input.
        world: What runs share.
    """

    def __init__(self, definition: dict[str, Any], given: Any, world: World) -> None:
        self._definition = definition
        self._use: dict[str, Any] = definition.get("use") or {}
        self._given = given
        self._world = world

    async def run(self) -> Any:
        """Return the output.

        Raises:
            Fault: It faulted.
        """
        length = self._definition.get("timeout")
        if length is None:
            return await self._run()
        seconds = self._seconds(self._after(length), self._given, {}, "/")
        return await self._within(seconds, self._run(), fault("timeout", 408, "/"))

    async def _run(self) -> Any:
        flow = self._definition
        data = self._transformed(flow.get("input"), "from", self._given, {}, "/")
        context = Context()
        try:
            data, _ = await self._list(self._definition["do"], "/do", data, Here(context, {}))
        except End as end:
            data = end.output
        return self._transformed(flow.get("output"), "as", data, {"context": context.value}, "/")

    # --- lists and tasks ----------------------------------------------------------------------------------------------

    async def _list(
        self, tasks: list[dict[str, Any]], pointer: str, data: Any, here: Here
    ) -> tuple[Any, bool]:
        names = [next(iter(one)) for one in tasks]
        index = 0
        while index < len(tasks):
            name = names[index]
            data, then = await self._task(tasks[index][name], f"{pointer}/{index}/{name}", name, data, here)
            if then == "end":
                raise End(data)
            if then == "exit":
                return data, True
            index = index + 1 if then == "continue" else names.index(then)
        return data, False

    async def _task(
        self, task: dict[str, Any], pointer: str, name: str, raw: Any, here: Here
    ) -> tuple[Any, str]:
        def seen(**more: Any) -> dict[str, Any]:
            told = {"name": name, "reference": pointer, "input": raw}
            return {"context": here.context.value, "task": told, **more, **here.variables}

        if "if" in task and not self._true(task["if"], raw, seen(), pointer):
            return raw, "continue"
        given = task.get("input") or {}
        self._check(given, raw, pointer)
        data = self._transformed(given, "from", raw, seen(), pointer)

        async def body() -> tuple[Any, str]:
            output, then = await self._body(task, pointer, data, lambda: seen(input=data), here)
            out = task.get("output") or {}
            output = self._transformed(out, "as", output, seen(input=data), pointer)
            self._check(out, output, pointer)
            export = task.get("export") or {}
            if "as" in export:
                exported = self._transformed(export, "as", output, seen(input=data, output=output), pointer)
                self._check(export, exported, pointer)
                here.context.export(exported)
            return output, then or task.get("then", "continue")

        if "timeout" not in task:
            return await body()
        seconds = self._seconds(self._after(task["timeout"]), data, seen(input=data), pointer)
        return await self._within(seconds, body(), fault("timeout", 408, pointer))

    async def _body(
        self, task: dict[str, Any], pointer: str, data: Any, seen: Callable[[], dict[str, Any]], here: Here
    ) -> tuple[Any, str | None]:
        if "for" in task:
            return await self._for(task, pointer, data, seen, here), None
        if "do" in task:
            return (await self._list(task["do"], f"{pointer}/do", data, here))[0], None
        if "set" in task:
            return self._filled(task["set"], data, seen(), pointer), None
        if "switch" in task:
            for one in task["switch"]:
                (case,) = one.values()
                if "when" not in case or self._true(case["when"], data, seen(), pointer):
                    return data, case["then"]
            return data, None
        if "raise" in task:
            error = self._filled(task["raise"]["error"], data, seen(), pointer)
            raise Fault({"instance": pointer, **error})
        if "wait" in task:
            await self._sleep(self._seconds(task["wait"], data, seen(), pointer))
            return data, None
        if "fork" in task:
            return await self._fork(task["fork"], pointer, data, here), None
        if "try" in task:
            return await self._try(task, pointer, data, seen, here)
        if "emit" in task:
            return self._filled(task["emit"]["event"]["with"], data, seen(), pointer), None
        if "listen" in task:
            return await self._listen(task, pointer, seen, here), None
        if "call" in task:
            given = self._filled(task.get("with", {}), data, seen(), pointer)
            function, place = self._use["functions"][task["call"]], f"/use/functions/{task['call']}"
            try:
                output, _ = await self._task(function, place, task["call"], given, Here(here.context, {}))
                return output, None
            except Fault as error:
                raise Fault({**error.error, "instance": pointer}) from None
        assert "run" in task
        asked = task["run"]["workflow"]
        given = self._filled(asked.get("input"), data, seen(), pointer)
        try:
            return await Oracle(self._world.documents[asked["name"]], given, self._world).run(), None
        except Fault as error:
            raise Fault({**error.error, "instance": pointer}) from None

    # --- kinds of tasks that are more than a line ---------------------------------------------------------------------

    async def _for(
        self, task: dict[str, Any], pointer: str, data: Any, seen: Callable[[], dict[str, Any]], here: Here
    ) -> Any:
        loop = task["for"]
        items = self._asked(loop["in"], data, seen(), pointer)
        if items is None:
            return data
        if not isinstance(items, list):
            raise fault("expression", 400, pointer)
        output = data
        for index, item in enumerate(items):
            mine = {loop.get("each", "item"): item, loop.get("at", "index"): index}
            if "while" in task and not self._true(task["while"], output, {**seen(), **mine}, pointer):
                break
            output, _ = await self._list(task["do"], f"{pointer}/do", output, here.with_(**mine))
        return output

    async def _fork(self, fork: dict[str, Any], pointer: str, data: Any, here: Here) -> Any:
        compete = bool(fork.get("compete"))
        start = here.context.value

        async def branch(index: int, one: dict[str, Any]) -> Any:
            (name,) = one
            mine = Here(Context(start, here.context), here.variables)
            output, then = await self._task(
                one[name], f"{pointer}/fork/branches/{index}/{name}", name, data, mine
            )
            if then == "end":
                raise End(output)
            return output

        tasks = [asyncio.create_task(branch(index, one)) for index, one in enumerate(fork["branches"])]
        waiting = set(tasks)
        first: BaseException | None = None
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in sorted(done, key=tasks.index):
                    error = one.exception()
                    if error is None:
                        if compete:
                            return one.result()
                    elif not compete or not isinstance(error, Fault):
                        raise error
                    else:
                        first = first or error
            if first is not None:
                raise first
            return [one.result() for one in tasks]
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(
        self, task: dict[str, Any], pointer: str, data: Any, seen: Callable[[], dict[str, Any]], here: Here
    ) -> tuple[Any, str | None]:
        catch = task["catch"]
        retry = catch.get("retry")
        limit = (retry or {}).get("limit") or {}

        async def attempts() -> tuple[Any, str | None]:
            number = 0
            while True:
                try:
                    duration = (limit.get("attempt") or {}).get("duration")
                    if duration is None:
                        return (await self._list(task["try"], f"{pointer}/try", data, here))[0], None
                    seconds = self._seconds(duration, data, seen(), pointer)
                    work = self._list(task["try"], f"{pointer}/try", data, here)
                    return (await self._within(seconds, work, fault("timeout", 408, pointer)))[0], None
                except Fault as caught:
                    error = caught
                mine = {catch.get("as", "error"): error.error}
                wanted = (catch.get("errors") or {}).get("with") or {}
                fits = all(error.error.get(key) == value for key, value in wanted.items())
                if not fits or (
                    "when" in catch and not self._true(catch["when"], data, {**seen(), **mine}, pointer)
                ):
                    raise error
                number += 1
                count = (limit.get("attempt") or {}).get("count")
                if retry is not None and (count is None or number <= count):
                    delay = self._seconds(retry["delay"], data, seen(), pointer) if "delay" in retry else 0.0
                    kind = next(iter(retry.get("backoff") or {"constant": {}}))
                    await self._sleep(
                        delay * {"constant": 1, "linear": number, "exponential": 2.0 ** (number - 1)}[kind]
                    )
                    continue
                output = data
                if "do" in catch:
                    output, _ = await self._list(catch["do"], f"{pointer}/catch/do", data, here.with_(**mine))
                elif "then" not in catch and retry is not None:
                    raise error
                return output, catch.get("then")

        if limit.get("duration") is None:
            return await attempts()
        seconds = self._seconds(limit["duration"], data, seen(), pointer)
        return await self._within(seconds, attempts(), fault("timeout", 408, pointer))

    async def _listen(
        self, task: dict[str, Any], pointer: str, seen: Callable[[], dict[str, Any]], here: Here
    ) -> list[Any]:
        to = task["listen"]["to"]
        events: asyncio.Queue[Published] = asyncio.Queue()
        self._world.listeners.append(events)
        kind = next(one for one in ("one", "any", "all") if one in to)
        wanted = [to["one"]] if kind == "one" else list(to[kind])
        consumed: list[Any] = []
        output: list[Any] = []
        foreach = task.get("foreach")
        try:
            while True:
                event = await events.get()
                taken = next((one for one in wanted if one["with"]["type"] == event.type), None)
                if taken is None and wanted:
                    continue
                if kind == "all":
                    wanted.remove(taken)
                consumed.append(event.data)
                item = event.data
                if foreach is not None:
                    mine = here.with_(
                        **{foreach.get("item", "item"): item, foreach.get("at", "index"): len(consumed) - 1}
                    )
                    item, _ = await self._list(foreach["do"], f"{pointer}/foreach/do", item, mine)
                output.append(item)
                if "until" in to:
                    if self._true(to["until"], consumed, seen(), pointer):
                        return output
                elif kind != "all" or not wanted:
                    return output
        finally:
            self._world.listeners.remove(events)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _after(self, timeout: Any) -> Any:
        return (self._use["timeouts"][timeout] if isinstance(timeout, str) else timeout)["after"]

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._world.arm(seconds)
            await asyncio.sleep(seconds)

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T], late: Fault) -> T:
        if seconds <= 0:
            work.close()
            raise late
        try:
            self._world.arm(seconds)
        except Uncertain:
            work.close()
            raise
        task = asyncio.create_task(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
            if not done:
                raise late
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _seconds(self, length: Any, data: Any, variables: Mapping[str, Any], pointer: str) -> float:
        value = self._filled(length, data, variables, pointer)
        units = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}
        if isinstance(value, dict):
            return float(sum(units[unit] * number for unit, number in value.items()))
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise fault("expression", 400, pointer)
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds

    # --- data ---------------------------------------------------------------------------------------------------------

    def _asked(self, text: str, data: Any, variables: Mapping[str, Any], pointer: str) -> Any:
        found = _WHOLE.fullmatch(text)
        everything = {"workflow": {"input": self._given}, **variables}
        try:
            return evaluated(found[1] if found else text, data, everything)
        except ValueError:
            raise fault("expression", 400, pointer) from None

    def _true(self, text: str, data: Any, variables: Mapping[str, Any], pointer: str) -> bool:
        value = self._asked(text, data, variables, pointer)
        # Not by equality: in Python zero equals false.
        return value is not None and value is not False

    def _filled(self, value: Any, data: Any, variables: Mapping[str, Any], pointer: str) -> Any:
        if isinstance(value, str):
            return self._asked(value, data, variables, pointer) if _WHOLE.fullmatch(value) else value
        if isinstance(value, dict):
            return {key: self._filled(one, data, variables, pointer) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one, data, variables, pointer) for one in value]
        return value

    def _transformed(self, flow: Any, key: str, data: Any, variables: Mapping[str, Any], pointer: str) -> Any:
        wanted = (flow or {}).get(key)
        if wanted is None:
            return data
        if isinstance(wanted, str):
            return self._asked(wanted, data, variables, pointer)
        return self._filled(wanted, data, variables, pointer)

    def _check(self, flow: Any, data: Any, pointer: str) -> None:
        schema = (flow or {}).get("schema")
        if schema is not None and not _is(data, schema["document"]["type"]):
            raise fault("validation", 400, pointer)


def _is(data: Any, kind: str) -> bool:
    if isinstance(data, bool) or data is None:
        return kind == ("null" if data is None else "boolean")
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "number": (int, float)}
    return bool(isinstance(data, kinds[kind]))


async def foretold(
    definition: dict[str, Any], given: Any, documents: dict[str, dict[str, Any]], events: list[Published]
) -> tuple[str, Any]:
    """Return how a run ends, and its output or its error.

    Args:
        definition: The definition.
        given: Its input.
        documents: Those that it may run, by name.
        events: What is published meanwhile.

    Raises:
        Uncertain: That is not certain.
    """
    world = World(documents)
    for event in events:
        world.arm(event.at)

    async def publish() -> None:
        now = 0.0
        for event in events:
            await asyncio.sleep(event.at - now)
            now = event.at
            for listener in world.listeners:
                listener.put_nowait(event)

    publishing = asyncio.create_task(publish())
    try:
        return "completed", await Oracle(definition, given, world).run()
    except Fault as error:
        return "faulted", error.error
    finally:
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
