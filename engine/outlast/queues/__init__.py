"""Queues: what a client does to them, and how they are shown."""
