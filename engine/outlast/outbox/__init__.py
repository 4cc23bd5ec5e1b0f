"""Starts, signals and cancel requests in a user's own transaction."""
