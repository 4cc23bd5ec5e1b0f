"""Calls of protocols: what their activities do."""
