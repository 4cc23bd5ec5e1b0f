"""Webhooks: alerts as signed HTTPS requests."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from typing import Any, Final

import orjson

from outlast.alerts.http_post import PostError, post, read_target
from outlast.alerts.signatures import read_secrets, signed_headers
from outlast.version import __version__
from outlast.visibility.views import Alert
from outlast_workflow.errors import ApplicationError, InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import timeout_seconds
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, to_datetime

LONGEST_TIMEOUT_S: Final = 14
"""Less than an attempt may take, so that its failure says what happened."""
SHORTEST_WAIT_S: Final = 5
"""The shortest ``Retry-After`` that is obeyed: one of 0 would be asked again and again without a pause, for a day."""
LONGEST_WAIT_S: Final = 3600
"""The longest ``Retry-After`` that is obeyed."""
_RETRIED: Final = frozenset({408, 425, 429})
"""Those of the 4xx that may pass by themselves."""
_OWN_STATE: Final = frozenset({"deliveries", "acknowledged_at", "acknowledged_by"})
OPTIONS: Final = ("url", "secret_env", "timeout", "allow_http", "allow_private", "ca_file")


class Webhook:
    """An endpoint that takes alerts: ``POST`` with ``{"alerts": [...]}``, signed as Standard Webhooks has it.

    The headers are ``webhook-id`` (the same at each attempt: what has come before can be left out by it),
    ``webhook-timestamp`` and ``webhook-signature``. A 2xx takes the alerts. A 4xx other than 408, 425 and 429 refuses
    them for good; everything else is repeated, for a day, after the ``Retry-After`` that it names. Redirects are not
    followed.

    Args:
        url: Where to. Only ``https``, unless ``allow_http``.
        secret_env: The environment variable that holds the secret: ``whsec_`` and then base64. While secrets change it
            may hold two, with a space between them, and each of them signs. Without it nothing is signed.
        timeout: Seconds that a request may take in all, at most 14.
        allow_http: Whether the URL may be unencrypted.
        allow_private: Whether the host may have an address that is not public: of a private network, of this machine.
        ca_file: The certificates to trust instead of the system's, as PEM.

    Raises:
        InvalidOptionError: Something of it cannot be used, or the environment has no such secret.
    """

    def __init__(
        self,
        url: str,
        *,
        secret_env: str | None = None,
        timeout: float = 10,
        allow_http: bool = False,
        allow_private: bool = False,
        ca_file: str | os.PathLike[str] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            refuse_unknown("Webhook", unknown, OPTIONS)
        self._target = read_target(url, allow_http=allow_http)
        self._keys: tuple[bytes, ...] = ()
        if secret_env is not None:
            text = os.environ.get(secret_env)
            if text is None:
                raise InvalidOptionError(
                    f"the environment variable {secret_env!r:.80}, which is to hold the webhook's secret, is not set",
                    field="secret_env",
                )
            self._keys = read_secrets(text, f"the secret in {secret_env}")
        self._timeout = timeout_seconds("webhook timeout", timeout)
        if self._timeout > LONGEST_TIMEOUT_S:
            raise InvalidOptionError(
                f"the webhook's timeout is at most {LONGEST_TIMEOUT_S} s: an attempt may take no longer",
                field="timeout",
            )
        self._allow_private = allow_private
        self._context: ssl.SSLContext | None = None
        if self._target.tls:
            try:
                self._context = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError):
                raise InvalidOptionError(
                    "the webhook's ca_file is not there, or holds no certificates in PEM", field="ca_file"
                ) from None

    def __repr__(self) -> str:
        # The path of a URL may be a secret.
        return (
            f"Webhook(https://{self._target.authority}/…)"
            if self._target.tls
            else f"Webhook({self._target.authority})"
        )

    async def post(self, delivery_id: str, now: int, alerts: Sequence[Alert], *, test: bool = False) -> None:
        """Send alerts.

        Args:
            delivery_id: What identifies them at each attempt.
            now: The time, in microseconds since the epoch.
            alerts: The alerts.
            test: Whether they are only a test, as the body then says.

        Raises:
            ApplicationError: The endpoint did not take them.
        """
        documents = [alert.model_dump(mode="json", exclude=set(_OWN_STATE)) for alert in alerts]
        body = orjson.dumps({"alerts": documents, **({"test": True} if test else {})})
        headers = signed_headers(self._keys, delivery_id, now // MICROSECONDS_PER_SECOND, body)
        headers["user-agent"] = f"outlast/{__version__}"
        try:
            answer = await post(
                self._target,
                body,
                headers,
                context=self._context,
                allow_private=self._allow_private,
                timeout=self._timeout,
                now=to_datetime(now),
            )
        except PostError as error:
            raise ApplicationError(str(error), type="WebhookUnreachable") from None
        status = answer.status
        if 200 <= status < 300:
            return
        said = f"{self._target.host} answered {status}"
        if 300 <= status < 400:
            said += ": redirects are not followed, so give the webhook the URL that it leads to"
        wait = answer.retry_after
        raise ApplicationError(
            said,
            type="WebhookRefused",
            non_retryable=400 <= status < 500 and status not in _RETRIED,
            next_retry_delay=None if wait is None else min(max(wait, SHORTEST_WAIT_S), LONGEST_WAIT_S),
        )
