"""A session with a server, by the SDK of the protocol: the handshake, and one question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mcp.client import ClientSession, Transport
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    ClientCapabilities,
    Implementation,
    InitializedNotification,
    InitializeRequest,
    InitializeRequestParams,
    InitializeResult,
    Request,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

VERSIONS: Final = KNOWN_PROTOCOL_VERSIONS


class _Result(RootModel[dict[str, Any]]):
    """A result as the server has sent it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a server is asked.

    Attributes:
        method: The method.
        parameters: Its parameters.
        version: The version of the protocol that is offered.
        client_name: What the client calls itself.
        client_version: Its version.
    """

    method: str
    parameters: dict[str, Any]
    version: str
    client_name: str
    client_version: str


class UnansweredError(Exception):
    """The connection ended before there was an answer."""


async def answered(transport: Transport, question: Question) -> dict[str, Any]:
    """Return the result of a question.

    Args:
        transport: Connects to the server.
        question: What it is asked.

    Raises:
        MCPError: The server answered with an error.
        UnansweredError: The connection ended first, or what came is no answer.
        Exception: What the transport raises.
    """
    failure: Exception | None = None
    try:
        async with transport as (read, write):
            info = Implementation(name=question.client_name, version=question.client_version)
            async with ClientSession(read, write, client_info=info) as session:
                # An exception that left here would come out in a group.
                try:
                    await _begin(session, info, question.version)
                    request = Request[dict[str, Any], str](method=question.method, params=question.parameters)
                    return (await session.send_request(request, _Result)).root
                except (MCPError, UnansweredError, ValidationError, RuntimeError) as error:
                    failure = error
    except ExceptionGroup as group:
        raise _first(group) from None
    if isinstance(failure, MCPError) and failure.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        raise UnansweredError(failure.message) from None
    if isinstance(failure, MCPError) and failure.code == PARSE_ERROR:
        # The SDK says so of what it cannot read.
        raise UnansweredError("what came is no message of the protocol") from None
    if isinstance(failure, ValidationError):
        raise UnansweredError(f"what came is no result of {question.method}") from None
    if isinstance(failure, RuntimeError):
        raise UnansweredError(str(failure)) from None
    assert failure is not None
    raise failure


async def _begin(session: ClientSession, info: Implementation, version: str) -> None:
    """Agree on the protocol."""
    if version in MODERN_PROTOCOL_VERSIONS:
        await session.discover()
        return
    offer = InitializeRequestParams(
        protocol_version=version, capabilities=ClientCapabilities(), client_info=info
    )
    found = await session.send_request(InitializeRequest(params=offer), InitializeResult)
    if found.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise UnansweredError(f"it speaks the version {found.protocol_version!r:.40} of the protocol")
    session.adopt(found)
    await session.send_notification(InitializedNotification())


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
