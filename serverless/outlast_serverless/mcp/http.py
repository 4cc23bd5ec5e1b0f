"""Questions to servers over streamable HTTP, under the network policy."""

from __future__ import annotations

from typing import Any

from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from outlast_serverless.calls.endpoints import Endpoint
from outlast_serverless.calls.json_rpc import error_in, refused, rpc_fault
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.transport import CheckedTransport, client_of, network_faults
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.mcp.session import Question, UnansweredError, answered
from outlast_serverless.secrets import Masking


async def answer_by_http(
    at: Endpoint,
    headers: dict[str, str],
    question: Question,
    policy: HttpPolicy,
    what: str,
    pointer: str,
    masking: Masking,
) -> dict[str, Any]:
    """Return the result of a question.

    Args:
        at: Where the server is.
        headers: What is sent with each request.
        question: What it is asked.
        policy: What may be called.
        what: What is asked, in words.
        pointer: The task that asks.
        masking: Masks secrets.

    Raises:
        Fault: It was not answered, or with an error.
    """
    transport = CheckedTransport(policy)
    url = policy.rewritten(at.uri)
    async with client_of(transport, at.known, headers) as client:
        try:
            with network_faults(what, pointer, masking):
                try:
                    return await answered(
                        streamable_http_client(
                            url, http_client=client, max_sse_event_size=policy.max_response_bytes
                        ),
                        question,
                    )
                except (MCPError, UnansweredError):
                    # The SDK does not tell what kept an answer from coming.
                    if transport.failure is not None:
                        raise transport.failure from None
                    raise
        except (MCPError, UnansweredError) as error:
            if transport.refusal is not None and error_in(transport.refusal.content) is None:
                raise refused(transport.refusal, what, at.known, pointer, masking) from None
            if isinstance(error, MCPError):
                raise rpc_fault(question.method, error.code, error.message, pointer, masking) from None
            why = masking.text(str(error))
            raise fault("communication", f"{what} was not answered: {why}", pointer) from None
