"""``call: a2a``: one request of JSON-RPC to an agent; what it streams is gathered."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import orjson

from outlast import activity
from outlast_serverless.calls.authentication import TokenSource, authentication
from outlast_serverless.calls.endpoints import Endpoint, endpoint
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.http import idempotency_key
from outlast_serverless.calls.json_rpc import error_in, refused, rpc_fault
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resource, Resources
from outlast_serverless.calls.transport import CheckedTransport, client_of, network_faults
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.secrets import SecretSource

_SENDING: Final = frozenset({"message/send", "message/stream"})
_STREAMING: Final = frozenset({"message/stream", "tasks/resubscribe"})
_STATUSES: Final = {-32001: 404, -32002: 409, -32003: 501, -32004: 501, -32005: 415}
"""A task that is not there or cannot be cancelled; push notifications, operations, media types that it lacks."""
_BINDING: Final = "JSONRPC"
_MESSAGES: Final = uuid.UUID("8b1e0c3e-6a0c-4f0e-9a7d-0c5b8f4f2a11")
"""The namespace of the ids of messages."""


def a2a_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: HttpPolicy,
    tokens: TokenSource,
    resources: Resources,
) -> Any:
    """Return the activity of ``call: a2a``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
        resources: Fetches agent cards.
    """

    @activity.defn(name="serverless.a2a")
    async def a2a(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            return await _Call(asked, filling, policy, tokens, resources).answer()

    return a2a


class _Call:
    """One call of an agent."""

    def __init__(
        self,
        asked: CallRequest,
        filling: Filling,
        policy: HttpPolicy,
        tokens: TokenSource,
        resources: Resources,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._tokens = tokens
        self._resources = resources

    async def answer(self) -> Any:
        """Return the result; of a method that streams, all results in their order.

        Raises:
            Fault: It was not answered, or with an error.
        """
        asked, filling = self._asked, self._filling
        written = asked.written
        if not isinstance(written, dict):
            raise fault("configuration", "the arguments of the call are no object", asked.pointer)
        agent = await self._agent(written)
        rest = {name: value for name, value in written.items() if name not in ("agentCard", "server")}
        if asked.deferred is not None:
            rest = await filling.filled(rest, asked.place, **agent.variables)
        method = str(rest.get("method"))
        parameters = self._parameters(method, rest.get("parameters"))
        what = filling.masking.text(f"{method} at {agent.shown}")
        try:
            async with beating(asked.timeout), asyncio.timeout(self._policy.timeout):
                with network_faults(what, asked.pointer, filling.masking):
                    return await self._sent(agent, method, parameters, what)
        except TimeoutError:
            detail = f"{what} was not answered within {self._policy.timeout:g} s"
            raise fault("communication", detail, asked.pointer, status=504) from None

    async def _agent(self, written: dict[str, Any]) -> Endpoint:
        """Return where the agent is: its card says so, or the document."""
        asked, filling = self._asked, self._filling
        place = asked.place
        card = written.get("agentCard")
        if not isinstance(card, dict):
            if written.get("server") is None:
                raise fault("configuration", "the call needs an `agentCard` or a `server`", asked.pointer)
            return await endpoint(written["server"], f"{place}/server", asked, filling, self._tokens)
        place = f"{place}/agentCard"
        at, url = await self._resources.fetched(card, place, asked, filling, _card)
        # A card that sends calls elsewhere is not told there how to authenticate here.
        policy = card["endpoint"].get("authentication") if isinstance(card["endpoint"], dict) else None
        if not _same_origin(httpx2.URL(url), httpx2.URL(at)):
            policy = None
        return Endpoint(
            url,
            await authentication(policy, f"{place}/endpoint/authentication", asked, filling, self._tokens),
        )

    def _parameters(self, method: str, given: Any) -> dict[str, Any]:
        """Return the parameters; a message without an id gets the same one however often it is sent."""
        parameters = {} if given is None else given
        if not isinstance(parameters, dict):
            raise fault("configuration", "the parameters of the call are no object", self._asked.pointer)
        if method not in _SENDING:
            return parameters
        message = parameters.get("message")
        if not isinstance(message, dict):
            raise fault("configuration", f"{method} needs `parameters.message`", self._asked.pointer)
        id = str(uuid.uuid5(_MESSAGES, self._asked.key))
        return {**parameters, "message": {"messageId": id, "role": "user", **message}}

    async def _sent(self, agent: Endpoint, method: str, parameters: Mapping[str, Any], what: str) -> Any:
        asked, masking = self._asked, self._filling.masking
        streams = method in _STREAMING
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json" if streams else "application/json",
        }
        if self._policy.idempotency_key:
            headers["idempotency-key"] = idempotency_key(asked)
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": "1", "method": method}
        if parameters:
            body["params"] = parameters
        transport = CheckedTransport(self._policy)
        url = self._policy.rewritten(agent.uri)
        async with client_of(transport, agent.known, headers) as client:
            async with client.stream("POST", url, content=orjson.dumps(body)) as answer:
                kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if answer.is_success and kind == "text/event-stream":
                    source = httpx2.EventSource(answer, max_event_size=self._policy.max_response_bytes)
                    found = [
                        self._result(one.data.encode(), method, what) async for one in source if one.data
                    ]
                    if streams:
                        return found
                    if len(found) == 1:
                        return found[0]
                    raise fault("communication", f"{what} answered with {len(found)} results", asked.pointer)
                content = await answer.aread()
        if transport.refusal is not None and error_in(content) is None:
            raise refused(transport.refusal, what, agent.known, asked.pointer, masking)
        result = self._result(content, method, what)
        return [result] if streams else result

    def _result(self, content: bytes, method: str, what: str) -> Any:
        """Return the result in an answer.

        Raises:
            Fault: It is an error, or no answer of JSON-RPC.
        """
        asked, masking = self._asked, self._filling.masking
        error = error_in(content)
        if error is not None:
            raise _failed(method, error, asked, self._filling)
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict) or "result" not in answer:
            told = masking.text(content.decode(errors="replace"))[:200]
            raise fault("communication", f"{what} did not answer with JSON-RPC: {told}", asked.pointer)
        return answer["result"]


def _failed(method: str, error: dict[str, Any], asked: CallRequest, filling: Filling) -> Fault:
    return rpc_fault(method, error["code"], error.get("message"), asked.pointer, filling.masking, _STATUSES)


def _card(resource: Resource) -> tuple[str, str]:
    """Return where an agent card is, and the URL in it at which the agent speaks JSON-RPC.

    Raises:
        ValueError: It names none.
    """
    try:
        card = orjson.loads(resource.content)
    except orjson.JSONDecodeError:
        card = None
    if not isinstance(card, dict):
        raise ValueError(f"there is no agent card at {resource.url}")
    found: list[Any] = []
    if card.get("preferredTransport", _BINDING) == _BINDING:
        found.append(card.get("url"))
    for key, binding in (("additionalInterfaces", "transport"), ("supportedInterfaces", "protocolBinding")):
        for one in card.get(key) or ():
            if isinstance(one, dict) and one.get(binding) == _BINDING:
                found.append(one.get("url"))
    named = next((one for one in found if isinstance(one, str) and one), None)
    if named is None:
        raise ValueError(f"the agent card at {resource.url} names no URL for {_BINDING}")
    try:
        url = httpx2.URL(resource.url).join(named)
    except httpx2.InvalidURL as error:
        raise ValueError(f"the agent card at {resource.url} names {named!r:.100}: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(
            f"the agent card at {resource.url} names {named!r:.100}, which is no http or https URL"
        )
    return resource.url, str(url)


def _same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
