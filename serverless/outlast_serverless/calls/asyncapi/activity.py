"""The activity of ``call: asyncapi``: fetch the description, find the channel and its server, publish or subscribe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from outlast import activity
from outlast_serverless.calls.asyncapi.channel import ChannelAdapter, ChannelError, ChannelTarget
from outlast_serverless.calls.asyncapi.channels import Channels
from outlast_serverless.calls.asyncapi.description import AsyncDescription, ChannelOperation, family
from outlast_serverless.calls.asyncapi.locations import located, shown
from outlast_serverless.calls.asyncapi.messages import address_of, outbound
from outlast_serverless.calls.asyncapi.subscription import Subscription
from outlast_serverless.calls.authentication import Authentication, TokenSource, authentication
from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resource, Resources
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.secrets import SecretSource


def asyncapi_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: HttpPolicy,
    tokens: TokenSource,
    resources: Resources,
    channels: Channels,
) -> Any:
    """Return the activity of ``call: asyncapi``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
        resources: Fetches descriptions.
        channels: What speaks which protocol.
    """

    @activity.defn(name="serverless.asyncapi")
    async def asyncapi(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            try:
                call = await _Preparing(asked, filling, policy, tokens, resources, channels).call()
                if "subscription" not in request:
                    await _publish(call, asked)
                    return None
                subscription = Subscription(
                    request["subscription"],
                    call.operation,
                    call.adapter,
                    call.target,
                    asked,
                    filling,
                    evaluator,
                )
                return await subscription.consume()
            except DescriptionError as error:
                raise fault("configuration", str(error), asked.pointer) from None
            except ChannelError as error:
                raise _fault(error, asked) from None

    return asyncapi


def _fault(error: ChannelError, asked: CallRequest) -> Fault:
    return fault(error.kind, error.detail, asked.pointer, status=error.status)


@dataclass(frozen=True, slots=True)
class _Call:
    """What is called, and what speaks its protocol."""

    operation: ChannelOperation
    target: ChannelTarget
    adapter: ChannelAdapter
    message: Any


class _Preparing:
    """Works out one call."""

    def __init__(
        self,
        asked: CallRequest,
        filling: Filling,
        policy: HttpPolicy,
        tokens: TokenSource,
        resources: Resources,
        channels: Channels,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._tokens = tokens
        self._resources = resources
        self._channels = channels

    async def call(self) -> _Call:
        """Return what is called.

        Raises:
            Fault: It cannot be worked out.
            DescriptionError: The description cannot be used, or does not fit what is given.
        """
        asked = self._asked
        written = asked.written
        if not isinstance(written, dict) or not isinstance(written.get("document"), dict):
            raise fault("configuration", "the arguments of the call have no document", asked.pointer)
        known = await authentication(
            written.get("authentication"), f"{asked.place}/authentication", asked, self._filling, self._tokens
        )
        async with beating(asked.timeout):
            description = await self._resources.fetched(
                written["document"], f"{asked.place}/document", asked, self._filling, _description
            )
        given = {name: value for name, value in written.items() if name not in ("document", "authentication")}
        if asked.deferred is not None:
            variables = (
                {} if known is None or known.authorization is None else {"authorization": known.authorization}
            )
            given = await self._filling.filled(given, asked.place, **variables)
        message = given.get("message")
        publishes = message is not None
        if given.get("operation") is not None:
            operation = description.operation(str(given["operation"]), publishes=publishes)
        else:
            operation = description.channel(str(given.get("channel")), publishes=publishes)
        target = self._target(operation, given, known)
        return _Call(operation, target, self._channels.adapter(target.protocol), message)

    def _target(
        self, operation: ChannelOperation, given: dict[str, Any], known: Authentication | None
    ) -> ChannelTarget:
        named = given.get("server") or {}
        values = named.get("variables") or {}
        server = operation.server(named.get("name"), given.get("protocol"))
        trouble = self._channels.trouble(server.protocol)
        if trouble:
            raise DescriptionError(trouble)
        spoken = family(server.protocol)
        bindings = {"server": server.bindings, **operation.bindings}
        return ChannelTarget(
            server.protocol,
            self._policy.rewritten(located(server.protocol, server.filled(values))),
            address_of(operation, server.protocol, values, given.get("message")),
            {
                place: found
                for place, by_protocol in bindings.items()
                if isinstance(found := by_protocol.get(spoken), dict)
            },
            known,
            self._policy,
            self._policy.max_response_bytes,
            self._policy.timeout,
        )


async def _publish(call: _Call, asked: CallRequest) -> None:
    """Publish a message, within the time of the policy."""
    target = call.target
    message = outbound(call.operation, call.message)
    try:
        async with beating(asked.timeout), asyncio.timeout(target.timeout):
            await call.adapter.publish(target, message)
    except TimeoutError:
        detail = f"{shown(target.url)} did not take the message within {target.timeout:g} s"
        raise ChannelError(detail, status=504) from None
    except OSError as error:
        raise ChannelError(f"{shown(target.url)} cannot be reached: {error}") from None


def _description(resource: Resource) -> AsyncDescription:
    return AsyncDescription.parse(resource.content, resource.url)
