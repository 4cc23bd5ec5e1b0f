"""Signatures of webhooks, as `Standard Webhooks <https://www.standardwebhooks.com>`_ has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from outlast_workflow.errors import InvalidOptionError

_PREFIX: Final = "whsec_"
_SHORTEST: Final = 16
_LONGEST: Final = 256


def read_secrets(text: str, whence: str) -> tuple[bytes, ...]:
    """Return the keys of one or more secrets that spaces separate: while secrets change, each of them signs.

    Args:
        text: The secrets.
        whence: Where they are from, for the error; the error holds no part of them.

    Raises:
        InvalidOptionError: There is none, or one is no secret.
    """
    keys: list[bytes] = []
    for secret in text.split():
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not _SHORTEST <= len(key) <= _LONGEST:
            raise InvalidOptionError(
                f"{whence} must be `whsec_` and then {_SHORTEST} to {_LONGEST} bytes in base64, as "
                "`echo whsec_$(openssl rand -base64 32)` prints it; two, with a space between them, while they change",
                field="secret_env",
            )
        keys.append(key)
    if not keys:
        raise InvalidOptionError(
            f"{whence} is empty: put a secret there, or leave secret_env out", field="secret_env"
        )
    return tuple(keys)


def signed_headers(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that say which message this is, when it was sent, and that we sent it.

    Args:
        keys: The keys to sign with; without any the message is not signed.
        message_id: The same at every attempt.
        timestamp: When it is sent, in seconds since the epoch.
        body: What is sent.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    made = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    if made:
        headers["webhook-signature"] = " ".join(f"v1,{one}" for one in made)
    return headers
