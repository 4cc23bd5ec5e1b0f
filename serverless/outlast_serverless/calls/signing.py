"""Assertions that a client signs of itself, as RFC 7523 has them."""

from __future__ import annotations

from authlib.oauth2.rfc7523 import client_secret_jwt_sign, private_key_jwt_sign
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, RSAKey


def signed(method: str, secret: str, id: str, endpoint: str) -> str:
    """Return an assertion.

    Args:
        method: ``client_secret_jwt``, signed with HS256, or ``private_key_jwt``, with RS256.
        secret: The secret, or the private key as PEM.
        id: The client's id.
        endpoint: Where tokens are asked for.

    Raises:
        ValueError: The secret is no such key.
    """
    try:
        if method == "client_secret_jwt":
            return str(client_secret_jwt_sign(OctKey.import_key(secret), id, endpoint))
        return str(private_key_jwt_sign(RSAKey.import_key(secret), id, endpoint))
    except JoseError as error:
        raise ValueError(str(error)) from None
