"""Schedules as clients see them: declared, created, changed, described, triggered and backfilled."""
