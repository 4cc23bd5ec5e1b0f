"""Tracing: which tasks of a run have run, as a replay of its history tells it."""
