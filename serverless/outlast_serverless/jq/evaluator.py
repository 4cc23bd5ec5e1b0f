"""Evaluating expressions: paths in process, everything else by the helper, all of one template in one round trip."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final, Self

import orjson

from outlast import workflow
from outlast_serverless.jq.connection import HelperConnection
from outlast_serverless.jq.paths import Path, PathError, path
from outlast_serverless.jq.programs import (
    ExpressionFailed,
    Program,
    message_of,
    program,
    unsafe_integer,
)
from outlast_serverless.plan.model import Constant, Expression, Template, Value
from outlast_serverless.plan.pointers import keys
from outlast_workflow.errors import ExpressionBudgetError

logger = logging.getLogger("outlast.serverless")

BUDGET_S: Final = 1.0
MEMORY_BYTES: Final = 512 << 20
_MOST_NAMED: Final = 3
"""How many expressions an error names."""


class Evaluator:
    """Evaluates expressions, for one process.

    Args:
        budget: Seconds that one evaluation may take. What takes longer fails the workflow task, never the run.
        memory_bytes: How much memory it may use.

    Attributes:
        version: The version of jq, as its package has it.
    """

    def __init__(self, *, budget: float = BUDGET_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self.helper = HelperConnection(budget, memory_bytes)
        self.version = version("jq")
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the helper process, so that the first evaluation need not wait for it."""
        self.helper.start()

    def close(self) -> None:
        """End the helper process."""
        self.helper.close()

    def compare(self, began_with: str | None, name: str) -> None:
        """Log, once for each version, that a run began with another version of jq, whose results may differ.

        Args:
            began_with: The version.
            name: The document.
        """
        if began_with is None or began_with == self.version or began_with in self._told:
            return
        self._told.add(began_with)
        with workflow.unsafe.allow_io():
            logger.warning(
                "a run of %s began with jq %s, and this process has %s: if an expression gives something else now, the "
                "run does not fit its history any more; a worker with the version that it began with can end it",
                name,
                began_with,
                self.version,
            )

    def evaluate(self, value: Value, data: Any, variables: Mapping[str, Any], now: float) -> Any:
        """Return what a value is with its expressions evaluated. Nothing that comes from data is an expression.

        Args:
            value: An expression, a template or a constant.
            data: What ``.`` is.
            variables: The variables, without ``$``.
            now: What ``now`` is, in seconds since the epoch.

        Returns:
            A list, if an expression has several outputs; ``None``, if it has none.

        Raises:
            ExpressionFailed: An expression does not compile, or fails on this data.
            ExpressionBudgetError: It took too long, or too much memory.
        """
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Expression):
            return self._all((value,), data, variables, now)[0]
        found = self._all(value.expressions, data, variables, now)
        return _filled(value, found)

    def _all(
        self, expressions: tuple[Expression, ...], data: Any, variables: Mapping[str, Any], now: float
    ) -> list[Any]:
        results: list[Any] = [None] * len(expressions)
        asked: list[tuple[int, Expression, Program]] = []
        for place, expression in enumerate(expressions):
            form = _form(expression.text)
            unknown = next((name for name in form.variables if name not in variables), None)
            if unknown is not None:
                results[place] = _failed(expression, f"${unknown} is not defined")
            elif isinstance(form, Program):
                asked.append((place, expression, form))
            else:
                try:
                    results[place] = form.of(data, variables)
                except PathError as error:
                    results[place] = _failed(expression, str(error))
        if asked:
            self._ask(asked, results, data, variables, now)
        return results

    def _ask(
        self,
        asked: list[tuple[int, Expression, Program]],
        results: list[Any],
        data: Any,
        variables: Mapping[str, Any],
        now: float,
    ) -> None:
        used = {name: variables[name] for _, _, one in asked for name in one.variables}
        whole = {"d": data, "v": used, "n": now}
        try:
            encoded = orjson.dumps(whole)
        except TypeError as error:
            raise ExpressionFailed(
                asked[0][1].pointer, f"the data is no JSON that jq can read: {error}"
            ) from None
        large = unsafe_integer(encoded, whole)
        if large is not None:
            raise ExpressionFailed(
                asked[0][1].pointer,
                f"jq would change the integer {large}, which is beyond 2^53: pass it as text, or take it by a path "
                "such as `.order.id`, which keeps it",
            )
        try:
            answers = self.helper.ask({"run": True, "programs": [one.text for _, _, one in asked]}, encoded)
        except ExpressionBudgetError as error:
            named = [f"`{_short(one.text)}` at {one.pointer}" for _, one, _ in asked[:_MOST_NAMED]]
            which = "it is" if len(asked) == 1 else "it is one of"
            more = f" and {len(asked) - _MOST_NAMED} more" if len(asked) > _MOST_NAMED else ""
            raise ExpressionBudgetError(f"{error}; {which} {', '.join(named)}{more}") from None
        for (place, expression, _), (kind, answer) in zip(asked, answers, strict=True):
            if kind == "ok":
                results[place] = answer[0] if len(answer) == 1 else (answer or None)
            else:
                results[place] = _failed(expression, message_of(answer))


@lru_cache(4096)
def _form(text: str) -> Path | Program:
    return path(text) or program(text)


def _failed(expression: Expression, message: str) -> Any:
    """Return what an expression of the loose mode is where it fails: the text as it was written.

    Raises:
        ExpressionFailed: In the strict mode.
    """
    if expression.literal is not None:
        return expression.literal
    raise ExpressionFailed(expression.pointer, f"`{_short(expression.text)}`: {message}")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:99]}…"


def _filled(template: Template, results: list[Any]) -> Any:
    """Return a template with its expressions replaced; what has none is shared, not copied."""
    copies: dict[str, Any] = {}
    whole = _copy(template.value)
    for expression, result in zip(template.expressions, results, strict=True):
        steps = keys(expression.pointer[len(template.pointer) :])
        inner, done = whole, ""
        for step in steps[:-1]:
            done += f"/{step}"
            place: Any = int(step) if isinstance(inner, list) else step
            if done not in copies:
                copies[done] = inner[place] = _copy(inner[place])
            inner = copies[done]
        last: Any = int(steps[-1]) if isinstance(inner, list) else steps[-1]
        inner[last] = result
    return whole


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else dict(value)
