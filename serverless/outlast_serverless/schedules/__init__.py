"""Schedules of documents: the engine keeps those of time, a workflow those of events and of ends."""
