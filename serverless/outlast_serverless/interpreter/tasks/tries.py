"""Tries: which errors are caught, how often is tried again, and what is done then."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Final

from outlast import workflow
from outlast_serverless.interpreter.faults import Fault, fault, same_type
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.interpreter.state import Continuing, TryFrame
from outlast_serverless.interpreter.timing import Deadline, limited
from outlast_serverless.plan.durations import LONGEST_US
from outlast_serverless.plan.model import Catch, Directive, Retry, TryTask
from outlast_serverless.plan.pointers import indexless

_LONGEST_S: Final = LONGEST_US / 1_000_000
"""A delay that has grown beyond what can be kept is this long: its run has ended by then."""


async def run_try(self: Interpreting, task: TryTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run the tasks of a try, again with its input while its policy says so, and do what its catch says then."""
    retry = task.catch.retry
    new: TryFrame = {"of": "try", "attempt": 1}
    frame = self.frames.take("try", new)
    try:
        async with AsyncExitStack() as stack:
            if retry is not None and retry.duration is not None:
                if "deadline" not in frame:
                    seconds = self.seconds(retry.duration, run.input, run.during(), task.pointer)
                    frame["deadline"] = [*Deadline.after(seconds)]
                deadline = Deadline(*frame["deadline"])
                await stack.enter_async_context(
                    limited(
                        deadline,
                        run.label("retry"),
                        lambda: fault(
                            "timeout", f"the retries took longer than {deadline.seconds:g} s", task.pointer
                        ),
                    )
                )
            return await _attempts(self, task, run, frame)
    except Continuing as going:
        going.add(frame)
        raise


async def _attempts(
    self: Interpreting, task: TryTask, run: Execution, frame: TryFrame
) -> tuple[Any, Directive | None]:
    retry = task.catch.retry
    while "error" not in frame:
        try:
            return await _attempt(self, task, run, frame), None
        except Fault as error:
            self.drop_frames()
            frame.pop("attempt_deadline", None)
            if not _catches(self, task.catch, error, run):
                raise
            caught = error.error
        variables = {**run.during(), task.catch.name: caught}
        if retry is None or not _retries(self, retry, variables, run, frame["attempt"]):
            frame["error"] = caught
            break
        delay = _delay(self, retry, variables, run, frame["attempt"])
        if delay > 0:
            await workflow.sleep(delay, summary=run.label("backoff"))
        frame["attempt"] += 1
        self.retries(run)
    return await _caught(self, task, run, frame["error"])


async def _attempt(self: Interpreting, task: TryTask, run: Execution, frame: TryFrame) -> Any:
    attempt, retry = frame["attempt"], task.catch.retry
    scope = run.scope if attempt == 1 else run.scope.within(f"att={attempt}")
    if retry is None or retry.attempt_duration is None:
        return (await self.run_list(task.tasks, run.input, scope))[0]
    if "attempt_deadline" not in frame:
        seconds = self.seconds(retry.attempt_duration, run.input, run.during(), task.pointer)
        frame["attempt_deadline"] = [*Deadline.after(seconds)]
    deadline = Deadline(*frame["attempt_deadline"])

    def late() -> Fault:
        return fault("timeout", f"an attempt took longer than {deadline.seconds:g} s", task.pointer)

    async with limited(deadline, run.label("attempt"), late):
        return (await self.run_list(task.tasks, run.input, scope))[0]


async def _caught(
    self: Interpreting, task: TryTask, run: Execution, error: dict[str, Any]
) -> tuple[Any, Directive | None]:
    catch = task.catch
    output = run.input
    if catch.tasks is not None:
        scope = run.scope.within("catch", **{catch.name: error})
        output, _ = await self.run_list(catch.tasks, run.input, scope)
    elif catch.then is None and catch.retry is not None:
        # It was tried again, in vain, and nothing says what to do then.
        raise Fault(error)
    return output, catch.then


def _catches(self: Interpreting, catch: Catch, error: Fault, run: Execution) -> bool:
    variables = {**run.during(), catch.name: error.error}
    pointer = run.task.pointer
    filters: dict[str, Any] = self.evaluate(catch.filters, run.input, variables, pointer)
    if not all(_fits(error.error, name, wanted) for name, wanted in filters.items()):
        return False
    if not self.holds(catch.when, run.input, variables, pointer):
        return False
    return catch.except_when is None or not self.holds(catch.except_when, run.input, variables, pointer)


def _fits(error: dict[str, Any], name: str, wanted: Any) -> bool:
    """Return whether an error has what a filter wants; ``details`` is another spelling of ``detail``."""
    found = error.get("detail" if name == "details" else name)
    if name == "type":
        return same_type(str(found), str(wanted))
    if name == "instance":
        return wanted in (found, indexless(str(found)))
    return bool(found == wanted)


def _retries(
    self: Interpreting, retry: Retry, variables: dict[str, Any], run: Execution, attempt: int
) -> bool:
    pointer = run.task.pointer
    if retry.count is not None and attempt > retry.count:
        return False
    if not self.holds(retry.when, run.input, variables, pointer):
        return False
    return retry.except_when is None or not self.holds(retry.except_when, run.input, variables, pointer)


def _delay(
    self: Interpreting, retry: Retry, variables: dict[str, Any], run: Execution, attempt: int
) -> float:
    """Return how long to wait before the next attempt: the delay as it has grown, and a random part."""
    pointer = run.task.pointer
    delay = 0.0 if retry.delay is None else self.seconds(retry.delay, run.input, variables, pointer)
    if retry.backoff == "linear":
        delay *= attempt
    elif retry.backoff == "exponential":
        delay *= 2.0 ** min(attempt - 1, 60)
    if retry.jitter is not None:
        least, most = (self.seconds(length, run.input, variables, pointer) for length in retry.jitter)
        delay += workflow.random().uniform(least, most)
    return min(delay, _LONGEST_S)
