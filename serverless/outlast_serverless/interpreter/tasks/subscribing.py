"""Subscribe: an activity consumes the messages of a channel; with ``foreach`` each reaches the run as a signal."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from outlast import workflow
from outlast_serverless.interpreter.faults import from_failure
from outlast_serverless.interpreter.messages import Mailbox
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import CallTask, Expression, Iterator, Subscription
from outlast_serverless.rules.jq_text import glance
from outlast_workflow.errors import ActivityError

_BULKY: Final = ("workflow", "task")


async def run_subscription(
    self: Interpreting, task: CallTask, subscription: Subscription, run: Execution, name: str, options: Any
) -> list[Any]:
    """Consume messages; return them, or what the tasks of the iterator make of them.

    Args:
        self: Evaluates, and runs tasks.
        task: The task.
        subscription: What it consumes.
        run: The execution.
        name: The activity.
        options: Its options.

    Raises:
        Fault: The channel cannot be used, or an expression failed.
    """
    subscribing = _Subscribing(self, task, subscription, run)
    if task.iterator is None:
        request = self.call_request(run, task.arguments, run.input, **subscribing.asked())
        try:
            found: list[Any] = await workflow.execute_activity(name, request, **options)
        except ActivityError as error:
            raise from_failure(error, task.pointer) from None
        return found
    return await subscribing.consume(task.iterator, name, options)


class _Subscribing:
    """One execution of a task that subscribes."""

    def __init__(
        self, interpreter: Interpreting, task: CallTask, subscription: Subscription, run: Execution
    ) -> None:
        self._interpreter = interpreter
        self._task = task
        self._subscription = subscription
        self._run = run
        self._consumed: list[Any] = []
        self._output: list[Any] = []

    async def consume(self, iterator: Iterator, name: str, options: Any) -> list[Any]:
        """Take the messages that are sent, one after the other, until it is enough or no more come."""
        if self._subscription.until is not None and self._enough():
            return []
        mailboxes = self._interpreter.mailboxes
        mailbox = mailboxes.open(self._run.id)
        request = self._interpreter.call_request(
            self._run, self._task.arguments, self._run.input, **self.asked(execution=self._run.id)
        )
        sending = workflow.start_activity(name, request, **options)
        try:
            while await self._waited(mailbox, sending):
                message = mailbox.take()
                self._consumed.append(message)
                self._output.append(await self._iterate(iterator, message))
                if self._enough():
                    break
            else:
                # Its messages came before its end. Where it failed, the task does.
                sending.result()
        except ActivityError as error:
            raise from_failure(error, self._task.pointer) from None
        finally:
            mailboxes.close(self._run.id)
            # Nobody waits for it: it ends when it hears of that.
            sending.cancel()
        return self._output

    async def _waited(self, mailbox: Mailbox, sending: asyncio.Future[Any]) -> bool:
        """Wait for a message; return whether there is one, and not the end of them all."""
        if not mailbox.waiting:
            await workflow.wait_condition(lambda: bool(mailbox.waiting) or sending.done())
        return bool(mailbox.waiting)

    async def _iterate(self, iterator: Iterator, message: Any) -> Any:
        """Run the tasks of the iterator, whose input is the message; return what becomes of it."""
        position = len(self._consumed) - 1
        scope = self._run.scope.within(
            f"message={position}", **{iterator.item: message, iterator.at: position}
        )
        # The activity is this run's, so the run cannot continue as new while it subscribes.
        scope = replace(scope, forked=True)
        output = message
        if iterator.tasks is not None:
            output, _ = await self._interpreter.run_list(iterator.tasks, message, scope)
        return self._interpreter.flowing_on(iterator.data, replace(self._run, scope=scope), output)

    def _enough(self) -> bool:
        wanted = self._subscription
        if wanted.amount is not None:
            return len(self._consumed) >= wanted.amount
        condition = wanted.until or wanted.holds
        if condition is None:
            return False
        holds = self._interpreter.holds(condition, self._consumed, self._run.during(), self._task.pointer)
        return holds if condition is wanted.until else not holds

    def asked(self, execution: str | None = None) -> dict[str, Any]:
        """Return what the activity is asked for beside the arguments of the call.

        Args:
            execution: The execution that messages are sent to; without it they are collected.
        """
        wanted, run = self._subscription, self._run
        # With an iterator the run asks after each message, since its tasks may export.
        conditions = (wanted.holds, wanted.until) if execution is None else (None, None)
        asked: dict[str, Any] = {
            "filter": _written(wanted.filter),
            "amount": wanted.amount,
            "while": _written(conditions[0]),
            "until": _written(conditions[1]),
            "variables": _seen(run, (wanted.filter, *conditions)),
            "execution": execution,
        }
        if wanted.length is not None:
            seconds = self._interpreter.seconds(wanted.length, run.input, run.during(), self._task.pointer)
            asked["ends_at"] = workflow.now().timestamp() + max(seconds, 0.0)
        unit, definition = run.scope.unit, run.common["workflow"]["definition"]
        use = (definition if unit is None else unit.definition).get("use") or {}
        return {"subscription": asked, "secrets": list(use.get("secrets") or ())}


def _written(expression: Expression | None) -> dict[str, str] | None:
    return None if expression is None else {"text": expression.text, "pointer": expression.pointer}


def _seen(run: Execution, expressions: tuple[Expression | None, ...]) -> dict[str, Any]:
    """Return the variables that expressions see, without the definition where none of them names it."""
    texts = [one.text for one in expressions if one is not None]
    used = {name for text in texts for name in glance(text).used}
    bulky = any("definition" in text for text in texts)
    found = {name: value for name, value in run.during().items() if name in used}
    for name in _BULKY:
        if name in found and not bulky:
            found[name] = {key: inner for key, inner in found[name].items() if key != "definition"}
    return found
