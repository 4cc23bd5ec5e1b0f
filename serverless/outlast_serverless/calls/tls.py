"""What calls trust over TLS."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context of all calls: reading the certificates takes longer than a call, so it is done once."""
    return httpx2.create_ssl_context(trust_env=False)
