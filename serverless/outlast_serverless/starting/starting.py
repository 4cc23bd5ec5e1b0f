"""Starting: what a run of a document is started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast import Client, StartOptions
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.data_flow import duration_seconds, validate
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.interpreter.request import StartRequest, load
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.model import Duration
from outlast_serverless.starting.support import check_support
from outlast_workflow.errors import FaultedError

_US: Final = 1_000_000
_SHORTEST_S: Final = 1.0
"""The engine's shortest timeout. What is shorter is kept by the interpreter, with this as a backstop."""


class Starting:
    """Prepares starts of documents.

    Args:
        client: The client.
        evaluator: Evaluates the timeout, where that is an expression.
        described: What ``$runtime`` is.

    Attributes:
        activities: The names of the activities of the runtime.
    """

    def __init__(self, client: Client, evaluator: Evaluator, described: Mapping[str, Any]) -> None:
        self._client = client
        self._evaluator = evaluator
        self._described = described
        self.activities: frozenset[str] = frozenset()

    def check(self, document: Document) -> None:
        """Refuse a document with tasks that cannot run here.

        Raises:
            UnsupportedTaskError: It has some.
        """
        check_support(document, self.activities)

    def prepared(
        self, document: Document, input: Any, options: StartOptions | None, *, check: bool = False
    ) -> tuple[StartRequest, StartOptions]:
        """Return what a run is started with, and the options of its start.

        Args:
            document: The document.
            input: Its raw input.
            options: The options that were given.
            check: Whether to check the input.

        Raises:
            FaultedError: The input does not fit, or the timeout cannot be worked out.
        """
        given = options or StartOptions()
        try:
            if check:
                loaded, plan = load(document.definition), document.plan
                validate(loaded, plan.data.input_schema, input, "input of the workflow", "/")
            seconds = self._timeout(document, input)
        except Fault as error:
            name = f"{document.namespace}/{document.name}"
            raise FaultedError(name, error.error) from None
        memo = {**memo_of(document), **(given.memo or {})}
        start = given.replace(memo=memo)
        timeout_us: int | None = None
        if seconds is not None:
            limit = max(seconds, _SHORTEST_S)
            if given.execution_deadline is None and (
                given.execution_timeout is None or limit < given.execution_timeout
            ):
                start = start.replace(execution_timeout=limit)
            if seconds < _SHORTEST_S or given.execution_deadline is not None:
                timeout_us = int(seconds * _US)
        return StartRequest(document.definition, input, timeout_us=timeout_us), start

    def _timeout(self, document: Document, input: Any) -> float | None:
        """Return the timeout of the workflow in seconds; an expression sees the raw input."""
        length = document.plan.timeout
        if length is None or isinstance(length, Duration):
            return None if length is None else length.microseconds / _US
        now = self._client.runtime.environment.clock.now() / _US
        variables = {
            "workflow": {"definition": document.definition, "input": input},
            "runtime": self._described,
            "input": input,
        }
        try:
            value = self._evaluator.evaluate(length, input, variables, now)
        except ExpressionFailed as error:
            raise fault("expression", f"{error.message} at {error.pointer}", "/") from None
        return duration_seconds(value, "/")


def memo_of(document: Document) -> dict[str, Any]:
    """Return the memo of runs of a document."""
    told = {
        "namespace": document.namespace,
        "name": document.name,
        "version": document.version,
        "digest": document.digest,
    }
    title = document.definition["document"].get("title")
    return told if title is None else {**told, "title": title}
