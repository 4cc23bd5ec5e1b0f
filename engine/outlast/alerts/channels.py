"""Channels: what stands behind the names that alert policies give, in the process that serves them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from outlast.alerts.webhook import Webhook
from outlast.visibility.views import Alert
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.alerts import channel_name

AlertCallback = Callable[[list[Alert]], Awaitable[None]]
"""An ``async def`` that is given up to a hundred alerts; what it raises is retried."""
AlertChannel = Webhook | AlertCallback


def checked_channels(given: Mapping[str, Any]) -> dict[str, AlertChannel]:
    """Return channels by name.

    Raises:
        InvalidOptionError: A name is none, or what stands behind it is neither a webhook nor an ``async def``.
    """
    if not isinstance(given, Mapping):
        raise InvalidOptionError(
            'alert channels must be a dict, as in {"oncall": Webhook("https://…")}', field="alert_channels"
        )
    for name, channel in given.items():
        channel_name(name)
        if not isinstance(channel, Webhook) and not inspect.iscoroutinefunction(channel):
            raise InvalidOptionError(
                f"alert channel {name!r} must be a Webhook or an async def that takes a list of alerts, "
                f"not {type(channel).__name__}",
                field="alert_channels",
            )
    return dict(given)
