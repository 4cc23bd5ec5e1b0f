"""JSON-RPC: what its errors are in the DSL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from outlast_serverless.calls.authentication import Authentication
from outlast_serverless.calls.transport import Refusal
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.secrets import Masking

_STATUSES: Final[dict[int, int]] = {-32700: 400, -32600: 400, -32601: 404, -32602: 400}
"""The status of what the caller did wrong; all else is the server's fault."""
_TOLD: Final = 500


def rpc_fault(
    method: str,
    code: Any,
    message: Any,
    pointer: str,
    masking: Masking,
    statuses: Mapping[int, int] | None = None,
) -> Fault:
    """Return an error of JSON-RPC as one of the DSL.

    Args:
        method: The method that was called.
        code: The code of the error.
        message: Its message.
        pointer: The task that called.
        masking: Masks secrets.
        statuses: The statuses of codes that the protocol adds.
    """
    status = {**_STATUSES, **(statuses or {})}.get(code, 500) if isinstance(code, int) else 500
    told = masking.text(str(message))[:_TOLD]
    return fault("runtime", f"{method} failed: {told} (code {code})", pointer, status=status)


def error_in(content: bytes) -> dict[str, Any] | None:
    """Return the error in an answer of JSON-RPC, or ``None`` if it is none."""
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) and "code" in error and "jsonrpc" in answer else None


def refused(
    refusal: Refusal, what: str, known: Authentication | None, pointer: str, masking: Masking
) -> Fault:
    """Return the error of an answer that is no success, and no error of JSON-RPC.

    Args:
        refusal: The answer.
        what: What was called.
        known: How the call authenticated; a token that is refused is forgotten.
        pointer: The task that called.
        masking: Masks secrets.
    """
    if refusal.status == 401 and known is not None and known.refused is not None:
        known.refused()
    told = masking.text(refusal.content.decode(errors="replace"))[:_TOLD]
    detail = f"{what} answered {refusal.status}" + (f": {told}" if told else "")
    return fault("communication", detail, pointer, status=refusal.status, title=refusal.title or None)
