"""The activity of ``call: openapi``: fetch the description, find the operation, make its request."""

from __future__ import annotations

from typing import Any

from outlast import activity
from outlast_serverless.calls.authentication import TokenSource, authentication
from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.calls.http import in_time, made
from outlast_serverless.calls.openapi.description import Description
from outlast_serverless.calls.openapi.requests import arguments_of
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resource, Resources
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.secrets import SecretSource


def openapi_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: HttpPolicy,
    tokens: TokenSource,
    resources: Resources,
) -> Any:
    """Return the activity of ``call: openapi``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
        resources: Fetches descriptions.
    """

    @activity.defn(name="serverless.openapi")
    async def openapi(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            try:
                return await _Call(asked, filling, policy, resources, tokens).answer()
            except DescriptionError as error:
                raise fault("configuration", str(error), asked.pointer) from None

    return openapi


class _Call:
    """One call of an operation."""

    def __init__(
        self,
        asked: CallRequest,
        filling: Filling,
        policy: HttpPolicy,
        resources: Resources,
        tokens: TokenSource,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._resources = resources
        self._tokens = tokens

    async def answer(self) -> Any:
        """Return the output of the call.

        Raises:
            Fault: It was not answered, or not with success.
            DescriptionError: The description cannot be used, or does not fit what is given.
        """
        asked = self._asked
        written = asked.written
        if not isinstance(written, dict) or not isinstance(written.get("document"), dict):
            raise fault("configuration", "the arguments of the call have no document", asked.pointer)
        known = await authentication(
            written.get("authentication"), f"{asked.place}/authentication", asked, self._filling, self._tokens
        )
        description = await self._resources.fetched(
            written["document"], f"{asked.place}/document", asked, self._filling, _description
        )
        rest = {name: value for name, value in written.items() if name not in ("document", "authentication")}
        given = rest if asked.deferred is None else await self._filling.filled(rest, asked.place)
        parameters = given.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise fault("configuration", "the parameters of the call are no object", asked.pointer)
        operation = description.operation(str(given.get("operationId")))
        arguments = {
            **arguments_of(operation, parameters),
            "output": given.get("output", "content"),
            "redirect": given.get("redirect"),
        }
        return await in_time(asked, self._policy, self._filling, made(arguments, known, asked))


def _description(resource: Resource) -> Description:
    return Description.parse(resource.content, resource.url)
