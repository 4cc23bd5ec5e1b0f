"""Tries: which errors are caught, how often is tried again, and what is done then."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from outlast import workflow
from outlast_serverless.interpreter.faults import Fault, fault, same_type
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.interpreter.timing import limited
from outlast_serverless.plan.model import Catch, Directive, Retry, TryTask
from outlast_serverless.plan.pointers import indexless


async def run_try(self: Interpreting, task: TryTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run the tasks of a try, again with its input while its policy says so, and do what its catch says then."""
    retry = task.catch.retry
    async with AsyncExitStack() as stack:
        if retry is not None and retry.duration is not None:
            seconds = self.seconds(retry.duration, run.input, run.during(), task.pointer)
            await stack.enter_async_context(
                limited(
                    seconds,
                    run.label("retry"),
                    lambda: fault("timeout", f"the retries took longer than {seconds:g} s", task.pointer),
                )
            )
        attempt = 1
        while True:
            try:
                return await _attempt(self, task, run, attempt), None
            except Fault as error:
                if not _catches(self, task.catch, error, run):
                    raise
                caught = error
            variables = {**run.during(), task.catch.name: caught.error}
            if retry is None or not _retries(self, retry, variables, run, attempt):
                return await _caught(self, task, run, caught)
            delay = _delay(self, retry, variables, run, attempt)
            if delay > 0:
                await workflow.sleep(delay, summary=run.label("backoff"))
            attempt += 1


async def _attempt(self: Interpreting, task: TryTask, run: Execution, attempt: int) -> Any:
    scope = run.scope if attempt == 1 else run.scope.within(f"att={attempt}")
    retry = task.catch.retry
    if retry is None or retry.attempt_duration is None:
        return (await self.run_list(task.tasks, run.input, scope))[0]
    seconds = self.seconds(retry.attempt_duration, run.input, run.during(), task.pointer)

    def late() -> Fault:
        return fault("timeout", f"an attempt took longer than {seconds:g} s", task.pointer)

    async with limited(seconds, run.label("attempt"), late):
        return (await self.run_list(task.tasks, run.input, scope))[0]


async def _caught(
    self: Interpreting, task: TryTask, run: Execution, caught: Fault
) -> tuple[Any, Directive | None]:
    catch = task.catch
    output = run.input
    if catch.tasks is not None:
        scope = run.scope.within("catch", **{catch.name: caught.error})
        output, _ = await self.run_list(catch.tasks, run.input, scope)
    elif catch.then is None and catch.retry is not None:
        # It was tried again, in vain, and nothing says what to do then.
        raise caught
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
    return delay
