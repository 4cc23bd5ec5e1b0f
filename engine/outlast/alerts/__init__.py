"""Channels that alerts are delivered to: ``from outlast.alerts import Webhook``."""

from outlast.alerts.channels import AlertCallback, AlertChannel
from outlast.alerts.webhook import Webhook
from outlast.visibility.views import Alert

__all__ = ["Alert", "AlertCallback", "AlertChannel", "Webhook"]
