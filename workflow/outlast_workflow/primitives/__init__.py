"""Enums, times, payloads and value objects: the building blocks of all other modules."""
