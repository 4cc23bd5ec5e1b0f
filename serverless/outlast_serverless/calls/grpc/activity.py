"""``call: grpc``: one call of a method, at an address that the policy has looked at."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from outlast import activity
from outlast_serverless.calls.authentication import Authentication, TokenSource, authentication
from outlast_serverless.calls.extras import lacking
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.policy import DeniedError, HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resources
from outlast_serverless.interpreter.faults import Fault, Kind, fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.secrets import SecretSource

if TYPE_CHECKING:
    import grpc
    import grpc.aio
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    from outlast_serverless.calls.grpc.proto import Proto, Protos

_TLS_PORT: Final = 443
_STREAM: Final = "messages"
"""The argument that holds the messages of a method that takes a stream of them."""
_STATUSES: Final[dict[str, tuple[Kind, int]]] = {
    "ABORTED": ("communication", 409),
    "ALREADY_EXISTS": ("communication", 409),
    "CANCELLED": ("communication", 499),
    "DEADLINE_EXCEEDED": ("communication", 504),
    "FAILED_PRECONDITION": ("communication", 400),
    "INVALID_ARGUMENT": ("communication", 400),
    "NOT_FOUND": ("communication", 404),
    "OUT_OF_RANGE": ("communication", 400),
    "PERMISSION_DENIED": ("authorization", 403),
    "RESOURCE_EXHAUSTED": ("communication", 429),
    "UNAUTHENTICATED": ("authentication", 401),
    "UNAVAILABLE": ("communication", 503),
    "UNIMPLEMENTED": ("communication", 501),
}
"""What a status of gRPC is as an error of the DSL; all others are ``communication`` 500."""
_TOO_LARGE: Final = "larger than max"
"""What the library says of a message that is longer than its limit."""


def grpc_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: HttpPolicy,
    tokens: TokenSource,
    resources: Resources,
) -> Any:
    """Return the activity of ``call: grpc``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
        resources: Fetches protos.
    """
    kept: list[Protos] = []

    @activity.defn(name="serverless.grpc")
    async def grpc(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            missing = lacking("grpc")
            if missing:
                raise fault("configuration", missing, asked.pointer)
            if not kept:
                from outlast_serverless.calls.grpc.proto import Protos

                kept.append(Protos())
            try:
                return await _Call(asked, filling, policy, tokens, resources, kept[0]).answer()
            except ValueError as error:
                told = filling.masking.text(str(error))
                raise fault("configuration", told, asked.pointer) from None

    return grpc


class _Call:
    """One call of a method."""

    def __init__(
        self,
        asked: CallRequest,
        filling: Filling,
        policy: HttpPolicy,
        tokens: TokenSource,
        resources: Resources,
        protos: Protos,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._tokens = tokens
        self._resources = resources
        self._protos = protos

    async def answer(self) -> Any:
        """Return the answer; of a method that streams, all messages in their order.

        Raises:
            Fault: It was not answered, or with an error.
            ValueError: The proto cannot be used, or what is given does not fit it.
        """
        from outlast_serverless.calls.grpc.proto import MOST_BYTES

        asked, filling = self._asked, self._filling
        deferred = asked.deferred
        written = asked.written
        if not isinstance(written, dict) or not isinstance(written.get("service"), dict):
            raise fault("configuration", "the arguments of the call have no service", asked.pointer)
        place = asked.place
        proto = await self._resources.fetched(
            written.get("proto"),
            f"{place}/proto",
            asked,
            filling,
            self._protos.compiled,
            most_bytes=MOST_BYTES,
        )
        service = {name: value for name, value in written["service"].items() if name != "authentication"}
        known = await authentication(
            written["service"].get("authentication"),
            f"{place}/service/authentication",
            asked,
            filling,
            self._tokens,
        )
        given = {**{name: value for name, value in written.items() if name != "proto"}, "service": service}
        if deferred is not None:
            authorization = None if known is None else known.authorization
            variables = {} if authorization is None else {"authorization": authorization}
            given = await filling.filled(given, place, **variables)
        service = given["service"]
        method = proto.method(str(service.get("name")), str(given.get("method")))
        sent = _messages(proto, method, given.get("arguments"))
        url = _url(service, self._policy)
        what = filling.masking.text(f"{method.full_name} at {url}")
        try:
            async with beating(asked.timeout), asyncio.timeout(self._policy.timeout):
                return await self._called(proto, method, sent, known, url, what)
        except TimeoutError:
            detail = f"{what} was not answered within {self._policy.timeout:g} s"
            raise fault("communication", detail, asked.pointer, status=504) from None

    async def _called(
        self,
        proto: Proto,
        method: MethodDescriptor,
        sent: list[Message],
        known: Authentication | None,
        url: str,
        what: str,
    ) -> Any:
        import grpc.aio

        pointer, masking = self._asked.pointer, self._filling.masking
        try:
            async with _channel(url, self._policy) as channel:
                answers = await self._answers(channel, proto, method, sent, _metadata(known, pointer), what)
        except DeniedError as error:
            raise fault("authorization", str(error), pointer) from None
        except OSError as error:
            told = masking.text(str(error))
            raise fault("communication", f"{what} was not answered: {told}", pointer) from None
        except grpc.aio.AioRpcError as error:
            if (
                error.code() is grpc.StatusCode.UNAUTHENTICATED
                and known is not None
                and known.refused is not None
            ):
                known.refused()
            raise _refused(error, what, pointer, masking.text(error.details() or "")) from None
        return answers if method.server_streaming else answers[0]

    async def _answers(
        self,
        channel: grpc.aio.Channel,
        proto: Proto,
        method: MethodDescriptor,
        sent: list[Message],
        metadata: tuple[tuple[str, str], ...],
        what: str,
    ) -> list[Any]:
        path = f"/{method.containing_service.full_name}/{method.name}"
        coding: dict[str, Any] = {
            "request_serializer": lambda message: message.SerializeToString(),
            "response_deserializer": lambda content: proto.read(method.output_type, content),
        }
        options: dict[str, Any] = {"metadata": metadata, "timeout": self._policy.timeout}
        if method.client_streaming:
            stream = _stream(sent)
            if not method.server_streaming:
                return [proto.json(await channel.stream_unary(path, **coding)(stream, **options))]
            call: Any = channel.stream_stream(path, **coding)(stream, **options)
        elif method.server_streaming:
            call = channel.unary_stream(path, **coding)(sent[0], **options)
        else:
            return [proto.json(await channel.unary_unary(path, **coding)(sent[0], **options))]
        answers, size = [], 0
        async for message in call:
            size += message.ByteSize()
            if size > self._policy.max_response_bytes:
                call.cancel()
                raise fault(
                    "communication",
                    f"{what} answered with more than {self._policy.max_response_bytes} bytes",
                    self._asked.pointer,
                )
            answers.append(proto.json(message))
        return answers


async def _stream(messages: list[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


def _messages(proto: Proto, method: MethodDescriptor, arguments: Any) -> list[Message]:
    """Return the messages that a call sends.

    Raises:
        ValueError: They do not fit the method.
    """
    given = {} if arguments is None else arguments
    if not method.client_streaming:
        return [proto.message(method.input_type, given)]
    if isinstance(given, dict):
        given = given.get(_STREAM) if given.keys() == {_STREAM} else None
    if not isinstance(given, list):
        raise ValueError(
            f"{method.full_name} takes a stream: give its messages as `arguments: {{{_STREAM}: […]}}`"
        )
    return [proto.message(method.input_type, one) for one in given]


def _url(service: dict[str, Any], policy: HttpPolicy) -> str:
    """Return where a service is, as ``grpc://host:port``, or ``grpcs://`` where it is called over TLS."""
    host, port = str(service.get("host")), service.get("port")
    port = _TLS_PORT if port is None else int(port)
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return policy.rewritten(f"{'grpcs' if port == _TLS_PORT else 'grpc'}://{name}:{port}")


@asynccontextmanager
async def _channel(url: str, policy: HttpPolicy) -> AsyncGenerator[grpc.aio.Channel]:
    """Open a channel to the address of a URL that was looked at, under the name that was asked for."""
    import grpc.aio

    parts = urlsplit(url)
    if parts.scheme not in ("grpc", "grpcs") or not parts.hostname:
        raise ValueError(f"{url!r:.100} is no host of a service")
    port = parts.port or _TLS_PORT
    address = await policy.address(parts.hostname, port)
    target = f"ipv4:{address}:{port}" if address.version == 4 else f"ipv6:[{address}]:{port}"
    options: list[tuple[str, Any]] = [
        ("grpc.default_authority", parts.netloc),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.max_receive_message_length", policy.max_response_bytes),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if parts.scheme == "grpc":
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        options.append(("grpc.ssl_target_name_override", parts.hostname))
        channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_roots()), options=options)
    async with channel:
        yield channel


def _roots() -> bytes | None:
    """Return the certificates that this machine trusts; where it says nothing, the library has some of its own."""
    file = ssl.get_default_verify_paths().cafile
    return Path(file).read_bytes() if file else None


def _metadata(known: Authentication | None, pointer: str) -> tuple[tuple[str, str], ...]:
    if known is None:
        return ()
    if known.authorization is None:
        raise fault("configuration", f"{known.scheme} authentication is of HTTP alone", pointer)
    return (("authorization", f"{known.authorization['scheme']} {known.authorization['parameter']}"),)


def _refused(error: grpc.aio.AioRpcError, what: str, pointer: str, told: str) -> Fault:
    """Return the error of the DSL for a status that is no success."""
    name = error.code().name
    kind, status = _STATUSES.get(name, ("communication", 500))
    if name == "RESOURCE_EXHAUSTED" and _TOO_LARGE in told:
        status = 500
    detail = f"{what} answered {name}" + (f": {told}" if told else "")
    return fault(kind, detail, pointer, status=status)
