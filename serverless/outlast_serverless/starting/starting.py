"""Starting: what a run of a document is started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from outlast import Client, StartOptions
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.data_flow import duration_seconds, validate
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.interpreter.request import StartRequest, load
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.json_schemas import validator_of
from outlast_serverless.plan.model import Duration, Plan, Schema
from outlast_serverless.secrets import SecretSource
from outlast_serverless.starting.support import check_support, unsupported
from outlast_workflow.errors import FaultedError

if TYPE_CHECKING:
    from outlast_serverless.calls.resources import Resources

_US: Final = 1_000_000
_SHORTEST_S: Final = 1.0
"""The engine's shortest timeout. What is shorter is kept by the interpreter, with this as a backstop."""


class Starting:
    """Prepares starts of documents.

    Args:
        client: The client.
        evaluator: Evaluates the timeout, where that is an expression.
        described: What ``$runtime`` is.
        secrets: Where secrets come from.
        resources: Fetches schemas.

    Attributes:
        activities: The names of the activities of the runtime.
        speaks: Returns why a protocol of channels cannot be spoken, or nothing.
    """

    def __init__(
        self,
        client: Client,
        evaluator: Evaluator,
        described: Mapping[str, Any],
        secrets: SecretSource | None,
        resources: Resources,
    ) -> None:
        self._client = client
        self._evaluator = evaluator
        self._described = described
        self._secrets = secrets
        self._resources = resources
        self.activities: frozenset[str] = frozenset()
        self.speaks: Callable[[str], str] = lambda protocol: ""

    def unsupported(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the tasks of a plan that cannot run here, by their pointers, and why."""
        return unsupported(plan, self.activities, self.speaks)

    def check(self, document: Document) -> None:
        """Refuse a document with tasks that cannot run here.

        Raises:
            UnsupportedTaskError: It has some.
        """
        check_support(document, self.activities, self.speaks)

    async def check_input(self, document: Document, input: Any) -> None:
        """Refuse an input that does not fit the document's schema, which is fetched if it is elsewhere.

        Args:
            document: The document.
            input: The raw input.

        Raises:
            FaultedError: The input does not fit, or the schema cannot be fetched or used.
        """
        schema = document.plan.data.input_schema
        if schema is None:
            return
        validator: Callable[[Schema], Any] = load(document.definition).validator
        try:
            if schema.resource is not None:
                fetched = validator_of(await self._fetched(document, input, schema), schema.format)
                validator = lambda _: fetched  # noqa: E731
            validate(validator, schema, input, "input of the workflow", "/")
        except Fault as error:
            raise FaultedError.at_start(f"{document.namespace}/{document.name}", error.error) from None

    async def _fetched(self, document: Document, input: Any, schema: Schema) -> Any:
        # A process that only checks documents does without a client for HTTP.
        from outlast_serverless.calls.fetching import fetched_schema
        from outlast_serverless.calls.request import CallRequest, Filling

        use: dict[str, Any] = document.definition.get("use") or {}
        deferred = {
            "value": document.definition["input"]["schema"]["resource"],
            "pointer": f"{schema.pointer}/resource",
            "data": input,
            "variables": {
                "workflow": {"definition": document.definition, "input": input},
                "runtime": self._described,
            },
            "now": self._client.runtime.environment.clock.now() / _US,
            "strict": document.plan.strict,
        }
        name = f"{document.namespace}/{document.name}:{document.version}"
        authentications = use.get("authentications") or {}
        asked = CallRequest("/", name, "", None, deferred, document.plan.secrets, authentications)
        filling = Filling(asked, self._evaluator, self._secrets)
        try:
            return (await fetched_schema(self._resources, asked, filling, schema.format))["schema"]
        except Fault as error:
            raise Fault(filling.masking.json(error.error)) from None

    def prepared(
        self, document: Document, input: Any, options: StartOptions | None
    ) -> tuple[StartRequest, StartOptions]:
        """Return what a run is started with, and the options of its start.

        Args:
            document: The document.
            input: Its raw input.
            options: The options that were given.

        Raises:
            FaultedError: The timeout cannot be worked out.
        """
        given = options or StartOptions()
        try:
            seconds = self._timeout(document, input)
        except Fault as error:
            name = f"{document.namespace}/{document.name}"
            raise FaultedError.at_start(name, error.error) from None
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
        jq = self._evaluator.version
        return StartRequest(document.definition, input, timeout_us=timeout_us, jq=jq), start

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
