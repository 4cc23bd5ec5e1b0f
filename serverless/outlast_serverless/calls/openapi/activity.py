"""The activity of ``call: openapi``: fetch the description, find the operation, make its request."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Final

from outlast import activity
from outlast_serverless.calls.authentication import TokenSource, authentication
from outlast_serverless.calls.http import in_time, made
from outlast_serverless.calls.openapi.description import Description, DescriptionError
from outlast_serverless.calls.openapi.requests import arguments_of
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.plan.templates import is_uri_template
from outlast_serverless.secrets import SecretSource

_KEPT_S: Final = 60.0
_MOST_KEPT: Final = 8
_MOST_BYTES: Final = 16 << 20
"""A description may be so long, even where answers may not."""


def openapi_activity(
    evaluator: Evaluator, secrets: SecretSource | None, policy: HttpPolicy, tokens: TokenSource
) -> Any:
    """Return the activity of ``call: openapi``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
    """
    kept: OrderedDict[str, tuple[float, Description]] = OrderedDict()

    @activity.defn(name="serverless.openapi")
    async def openapi(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            try:
                return await _Call(asked, filling, policy, kept, tokens).answer()
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
        kept: OrderedDict[str, tuple[float, Description]],
        tokens: TokenSource,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._kept = kept
        self._tokens = tokens
        self._place = str((asked.deferred or {}).get("pointer", ""))

    async def answer(self) -> Any:
        """Return the output of the call.

        Raises:
            Fault: It was not answered, or not with success.
            DescriptionError: The description cannot be used, or does not fit what is given.
        """
        asked, deferred = self._asked, self._asked.deferred
        written = asked.value if deferred is None else deferred.get("value")
        if not isinstance(written, dict) or not isinstance(written.get("document"), dict):
            raise fault("configuration", "the arguments of the call have no document", asked.pointer)
        known = await authentication(
            written.get("authentication"), f"{self._place}/authentication", asked, self._filling, self._tokens
        )
        description = await self._description(written["document"].get("endpoint"))
        rest = {name: value for name, value in written.items() if name not in ("document", "authentication")}
        given = rest if deferred is None else await self._filling.filled(rest, self._place)
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

    async def _description(self, endpoint: Any) -> Description:
        """Return the description at an endpoint. One that needs no authentication is kept for a minute."""
        asked, deferred = self._asked, self._asked.deferred
        place = f"{self._place}/document/endpoint"
        authenticates = endpoint.get("authentication") if isinstance(endpoint, dict) else None
        uri = endpoint.get("uri") if isinstance(endpoint, dict) else endpoint
        if deferred is not None:
            if is_uri_template(uri):
                uri = filled_uri(uri, deferred.get("data"), asked.pointer)
            else:
                uri = await self._filling.filled(uri, f"{place}/uri" if isinstance(endpoint, dict) else place)
        known = await authentication(
            authenticates, f"{place}/authentication", asked, self._filling, self._tokens
        )
        found = self._kept.get(str(uri)) if known is None else None
        if found is not None and asyncio.get_running_loop().time() - found[0] < _KEPT_S:
            return found[1]
        call = made({"method": "get", "endpoint": uri, "output": "raw", "redirect": True}, known, asked)
        policy = replace(self._policy, max_response_bytes=max(self._policy.max_response_bytes, _MOST_BYTES))
        content = base64.b64decode(await in_time(asked, policy, self._filling, call))
        # Reading much, and YAML, takes long.
        description = await asyncio.to_thread(Description.parse, content, str(uri))
        if known is None:
            self._kept[str(uri)] = (asyncio.get_running_loop().time(), description)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return description
