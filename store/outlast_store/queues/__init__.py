"""Queues: their gate, their lines, and the pure rules by which what waits is admitted."""
