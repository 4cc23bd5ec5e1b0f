"""Compiling: from a definition that was checked to a plan. References are looked up, extensions woven in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from outlast_serverless.plan.data import data_flow, expression, length, optional, template
from outlast_serverless.plan.durations import lookback
from outlast_serverless.plan.kinds import kinds_of
from outlast_serverless.plan.model import (
    CallTask,
    Case,
    Catch,
    DataFlow,
    Directive,
    DoTask,
    Duration,
    EmitTask,
    Expression,
    Extension,
    ForkTask,
    ForTask,
    Iterator,
    Length,
    ListenTask,
    Plan,
    RaiseTask,
    Retry,
    RunTask,
    Schedule,
    SetTask,
    SwitchTask,
    Task,
    TaskList,
    TryTask,
    WaitTask,
)
from outlast_serverless.plan.pointers import child
from outlast_serverless.plan.strategies import strategy, subscription

_Common: TypeAlias = tuple[
    str, str, Mapping[str, Any], Expression | None, DataFlow, Length | None, Directive, tuple[Extension, ...]
]
"""What every kind of task begins with."""
_COMPOSITE: Final = frozenset({"do", "fork", "for", "try"})
_DIRECTIVES: Final = ("continue", "exit", "end")


def compile_plan(definition: dict[str, Any]) -> Plan:
    """Return the plan of a definition.

    Args:
        definition: A definition without problems; of one that has some, anything may be raised.
    """
    return _Compiler(definition).plan()


class _Compiler:
    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.use: dict[str, Any] = definition.get("use") or {}
        self.loose = (definition.get("evaluate") or {}).get("mode") == "loose"
        self.size = 0
        self.extensions: list[tuple[str, Extension]] = []

    def plan(self) -> Plan:
        # Extensions do not apply to their own tasks, so these are compiled while there are none.
        self.extensions = self._extensions()
        functions = {
            name: self._task(name, task, child("/use/functions", name))
            for name, task in self._component("functions").items()
        }
        tasks = self._list(self.definition["do"], "/do")
        return Plan(
            tasks,
            data_flow(self.definition, "", self.loose),
            self._timeout(self.definition.get("timeout"), "/timeout"),
            self._schedule(self.definition.get("schedule")),
            lookback(self.definition["document"]),
            MappingProxyType(functions),
            tuple(self.use.get("secrets") or ()),
            not self.loose,
            self.size,
        )

    def _component(self, kind: str) -> dict[str, Any]:
        return self.use.get(kind) or {}

    def _list(self, tasks: list[Any], pointer: str) -> TaskList:
        compiled = tuple(
            self._task(name, task, child(pointer, index, name))
            for index, item in enumerate(tasks)
            for name, task in item.items()
        )
        positions = MappingProxyType({task.name: index for index, task in enumerate(compiled)})
        return TaskList(pointer, compiled, positions)

    def _optional_list(self, tasks: list[Any] | None, pointer: str) -> TaskList | None:
        return None if tasks is None else self._list(tasks, pointer)

    def _extensions(self) -> list[tuple[str, Extension]]:
        found: list[tuple[str, Extension]] = []
        extensions: list[dict[str, Any]] = self.use.get("extensions") or []
        for index, item in enumerate(extensions):
            for name, extension in item.items():
                pointer = child("/use/extensions", index, name)
                made = Extension(
                    name,
                    optional(extension.get("when"), f"{pointer}/when"),
                    self._optional_list(extension.get("before"), f"{pointer}/before"),
                    self._optional_list(extension.get("after"), f"{pointer}/after"),
                    pointer,
                )
                found.append((extension["extend"], made))
        return found

    def _applying(self, kind: str) -> tuple[Extension, ...]:
        return tuple(
            extension
            for target, extension in self.extensions
            if target in ("all", kind) or (target == "composite" and kind in _COMPOSITE)
        )

    def _task(self, name: str, task: dict[str, Any], pointer: str) -> Task:
        (kind,) = kinds_of(task)
        self.size += 1
        common: _Common = (
            name,
            pointer,
            MappingProxyType(task),
            optional(task.get("if"), f"{pointer}/if"),
            data_flow(task, pointer, self.loose),
            self._timeout(task.get("timeout"), f"{pointer}/timeout"),
            directive(task.get("then", "continue")),
            self._applying(kind),
        )
        made: Task = getattr(self, f"_{kind}")(common, task, pointer)
        return made

    def _timeout(self, timeout: Any, pointer: str) -> Length | None:
        if timeout is None:
            return None
        if isinstance(timeout, str):
            timeout, pointer = self._component("timeouts")[timeout], child("/use/timeouts", timeout)
        return length(timeout["after"], f"{pointer}/after")

    def _call(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        called = task["call"]
        function = child("/use/functions", called) if called in self._component("functions") else None
        arguments = task.get("with") or {}
        place = f"{pointer}/with"
        subscribed: dict[str, Any] | None = None
        if called == "asyncapi":
            # What a subscription has is evaluated for each message, not before the call.
            subscribed = arguments.get("subscription")
            arguments = {name: value for name, value in arguments.items() if name != "subscription"}
        return CallTask(
            *common,
            called,
            template(arguments, place, self.loose),
            function,
            None if subscribed is None else subscription(subscribed, f"{place}/subscription"),
            self._iterator((subscribed or {}).get("foreach"), f"{place}/subscription/foreach"),
        )

    def _do(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        return DoTask(*common, self._list(task["do"], f"{pointer}/do"))

    def _emit(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        event = task["emit"]["event"].get("with") or {}
        return EmitTask(*common, template(event, f"{pointer}/emit/event/with", self.loose))

    def _for(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        loop = task["for"]
        items, place = loop["in"], f"{pointer}/for/in"
        return ForTask(
            *common,
            loop.get("each", "item"),
            loop.get("at", "index"),
            expression(items, place) if isinstance(items, str) else template(items, place, self.loose),
            optional(task.get("while"), f"{pointer}/while"),
            self._list(task["do"], f"{pointer}/do"),
        )

    def _fork(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        fork = task["fork"]
        return ForkTask(
            *common,
            self._list(fork["branches"], f"{pointer}/fork/branches"),
            bool(fork.get("compete", False)),
        )

    def _listen(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        listen = task["listen"]
        return ListenTask(
            *common,
            strategy(listen["to"], f"{pointer}/listen/to", self.loose),
            listen.get("read", "data"),
            self._iterator(task.get("foreach"), f"{pointer}/foreach"),
            lookback(task) or lookback(self.definition["document"]),
        )

    def _iterator(self, iterator: dict[str, Any] | None, pointer: str) -> Iterator | None:
        if iterator is None:
            return None
        return Iterator(
            iterator.get("item", "item"),
            iterator.get("at", "index"),
            self._optional_list(iterator.get("do"), f"{pointer}/do"),
            data_flow(iterator, pointer, self.loose),
        )

    def _raise(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        error, place = task["raise"]["error"], f"{pointer}/raise/error"
        if isinstance(error, str):
            error, place = self._component("errors")[error], child("/use/errors", error)
        return RaiseTask(*common, template(error, place, self.loose))

    def _run(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        run = task["run"]
        process = next(name for name in ("container", "script", "shell", "workflow") if name in run)
        return RunTask(
            *common,
            process,
            template(run[process], f"{pointer}/run/{process}", self.loose),
            run.get("await", True),
            run.get("return", "stdout"),
        )

    def _set(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        return SetTask(*common, template(task["set"], f"{pointer}/set", self.loose))

    def _switch(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        cases = tuple(
            Case(
                name,
                optional(case.get("when"), child(f"{pointer}/switch", index, name, "when")),
                directive(case["then"]),
            )
            for index, item in enumerate(task["switch"])
            for name, case in item.items()
        )
        return SwitchTask(*common, cases)

    def _try(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        caught, place = task["catch"], f"{pointer}/catch"
        then = caught.get("then")
        catch = Catch(
            template((caught.get("errors") or {}).get("with") or {}, f"{place}/errors/with", self.loose),
            caught.get("as", "error"),
            optional(caught.get("when"), f"{place}/when"),
            optional(caught.get("exceptWhen"), f"{place}/exceptWhen"),
            self._retry(caught.get("retry"), f"{place}/retry"),
            self._optional_list(caught.get("do"), f"{place}/do"),
            None if then is None else directive(then),
            place,
        )
        return TryTask(*common, self._list(task["try"], f"{pointer}/try"), catch)

    def _retry(self, policy: Any, pointer: str) -> Retry | None:
        if policy is None:
            return None
        if isinstance(policy, str):
            policy, pointer = self._component("retries")[policy], child("/use/retries", policy)
        limit = policy.get("limit") or {}
        attempt = limit.get("attempt") or {}
        jitter = policy.get("jitter")
        return Retry(
            optional(policy.get("when"), f"{pointer}/when"),
            optional(policy.get("exceptWhen"), f"{pointer}/exceptWhen"),
            _length(policy.get("delay"), f"{pointer}/delay"),
            cast(
                "Literal['constant', 'linear', 'exponential']",
                next(iter(policy.get("backoff") or ["constant"])),
            ),
            None
            if jitter is None
            else (
                length(jitter["from"], f"{pointer}/jitter/from"),
                length(jitter["to"], f"{pointer}/jitter/to"),
            ),
            attempt.get("count"),
            _length(attempt.get("duration"), f"{pointer}/limit/attempt/duration"),
            _length(limit.get("duration"), f"{pointer}/limit/duration"),
            pointer,
        )

    def _wait(self, common: _Common, task: dict[str, Any], pointer: str) -> Task:
        return WaitTask(*common, length(task["wait"], f"{pointer}/wait"))

    def _schedule(self, schedule: dict[str, Any] | None) -> Schedule | None:
        if schedule is None:
            return None
        every, after = (_fixed(schedule.get(name), f"/schedule/{name}") for name in ("every", "after"))
        on = schedule.get("on")
        # Up to 1.0.3 there is no `read`, and events come whole.
        return Schedule(
            every,
            schedule.get("cron"),
            after,
            None if on is None else strategy(on, "/schedule/on", self.loose),
            schedule.get("read", self._read_by_default()),
        )

    def _read_by_default(self) -> str:
        parts = self.definition["document"]["dsl"].partition("-")[0].partition("+")[0].split(".")
        return "envelope" if tuple(map(int, parts)) <= (1, 0, 3) else "data"


def directive(then: str) -> Directive:
    """Return what a ``then`` says."""
    if then in _DIRECTIVES:
        return Directive(cast("Literal['continue', 'exit', 'end']", then))
    return Directive("task", then)


def _length(duration: Any, pointer: str) -> Length | None:
    return None if duration is None else length(duration, pointer)


def _fixed(duration: Any, pointer: str) -> Duration | None:
    found = _length(duration, pointer)
    assert not isinstance(found, Expression)
    return found
