"""Schedules: when workflows start by themselves, and what each due slot does.

A *slot* is an instant that a schedule names. :mod:`outlast_schedules.specs` says which there are, and is pure: it knows
no database and no clock. A schedule is one row. Whoever finds a slot due hands the journal a
:class:`~outlast_schedules.firing.FireSchedule`, which compares the row's version before it writes, so that of many
watchdogs one fires. The workflow id of a fire names schedule and slot, so that no slot starts twice, whatever its row
went through.
"""
