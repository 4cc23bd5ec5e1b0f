"""Saying whether an expression compiles, by the same jq that will run it."""

from __future__ import annotations

from outlast_serverless.jq.connection import HelperConnection
from outlast_serverless.jq.evaluator import BUDGET_S, MEMORY_BYTES
from outlast_serverless.jq.paths import path
from outlast_serverless.jq.programs import message_of, wrapped
from outlast_workflow.errors import ExpressionBudgetError


class JqChecker:
    """A :class:`~outlast_serverless.rules.jq_text.Checker` with a helper process of its own."""

    def __init__(self) -> None:
        self._helper = HelperConnection(BUDGET_S, MEMORY_BYTES)

    def __enter__(self) -> JqChecker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the helper process. A later check starts another one."""
        self._helper.close()

    def problem(self, expression: str, variables: frozenset[str]) -> str | None:
        """Return why an expression does not compile, or ``None`` if it does.

        Args:
            expression: The jq program.
            variables: The variables that are bound when it runs, without ``$``.
        """
        found = path(expression)
        if found is not None and (found.variable is None or found.variable in variables):
            return None
        text = wrapped(expression, tuple(sorted(variables))).text
        try:
            ((kind, told),) = self._helper.ask({"run": False, "programs": [text]}, b"")
        except ExpressionBudgetError:
            return "it takes too long to compile"
        if kind == "ok":
            return None
        message = message_of(told)
        if expression.count(")") <= expression.count("("):
            # The bracket is the one that stands around the whole expression where it runs.
            message = message.replace("unexpected ')'", "unexpected end")
        return message
