"""Queues that are missing, defined already, or in use."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class QueueNotFoundError(OutlastError):
    """No queue of this name is defined."""

    facts: ClassVar[tuple[str, ...]] = ("name", "similar")

    def __init__(self, name: str, *, similar: Sequence[str] = ()) -> None:
        meant = f"did you mean {' or '.join(repr(one) for one in similar)}? Otherwise " if similar else ""
        super().__init__(
            f"there is no queue {name!r}: {meant}define it with `outlast queue define {shlex.quote(name)}` "
            "or client.queues.define"
        )
        self.name = name
        self.similar = list(similar)


class QueueExistsError(OutlastError):
    """A queue of this name is defined already."""

    facts: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(
            f"queue {name!r} is defined already: change it with `update`, or say what to do about it: if_exists is "
            "update (these limits and no others) or keep (as it is)"
        )
        self.name = name


class QueueInUseError(OutlastError):
    """The queue cannot be deleted, because something waits in it or holds one of its slots."""

    facts: ClassVar[tuple[str, ...]] = ("name", "waiting", "running")

    def __init__(self, name: str, *, waiting: int, running: int) -> None:
        super().__init__(
            f"queue {name!r} cannot be deleted: {waiting} in it wait and {running} hold a slot. Let them end or cancel "
            f"them (`outlast list --queue {shlex.quote(name)} --open` lists the workflows), then delete it"
        )
        self.name = name
        self.waiting = waiting
        self.running = running
