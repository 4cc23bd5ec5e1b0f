"""Deleting closed chains by age or number: ``from outlast.retention import Retention``."""

from outlast.histories.retention import Retention, RetentionReport
from outlast.histories.retention_policy import RetentionPolicy

__all__ = ["Retention", "RetentionPolicy", "RetentionReport"]
