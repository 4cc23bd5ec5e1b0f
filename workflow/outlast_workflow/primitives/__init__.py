"""Enums, times, payloads and value objects: what everything else is made of."""
