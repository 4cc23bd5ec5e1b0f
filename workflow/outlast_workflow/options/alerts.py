"""When to be told of a deadline before it passes: thresholds on deadlines, and instants without one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, Never, Self

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import (
    instant_of,
    number,
    refuse_reserved,
    timeout_seconds,
    validate_name,
)
from outlast_workflow.primitives.enums import AlertKind
from outlast_workflow.primitives.times import from_datetime, iso, microseconds, to_datetime
from outlast_workflow.primitives.value_object import Value

DELIVERY: Final = "outlast.deliver"
"""The type of the workflows that deliver alerts."""
MOST_CHANNELS: Final = 20
"""How many channels a policy names at most: each gets a delivery."""
MOST_MARKS: Final = 20
"""How many marks a policy has at most: each is a row while its deadline lies ahead."""
ENFORCED: Final = "100%"
"""The mark of a deadline that is enforced."""
DEADLINES: Final = (
    AlertKind.EXECUTION,
    AlertKind.RUN,
    AlertKind.SCHEDULE_TO_START,
    AlertKind.START_TO_CLOSE,
    AlertKind.SCHEDULE_TO_CLOSE,
)
"""The kinds of deadlines that ``kinds`` may name."""
_MILLION: Final = 1_000_000
_RULES: Final = "rules"
_CHANNEL: Final = re.compile("[A-Za-z0-9_-]{1,64}")
MOST_RULES_OF_A_RUN: Final = 20
"""How many policies of rules a workflow's row holds at most."""
OF_WORKFLOWS: Final = DEADLINES[:3]
OF_ACTIVITIES: Final = DEADLINES[2:]


class AlertPolicy(Value):
    """When to be told that a deadline comes near, or that something takes longer than it should. It ends nothing.

    Each alert is fired once, never early, and with no worker of yours alive: a row that ``describe`` and
    ``outlast alerts list`` show, a line in the log, metrics, and a signal where one is named.

    Args:
        at: The shares of a deadline's time that are used up: ``0.8`` when 80 % is, ``1`` when it is enforced.
        before: How long ahead of a deadline. A deadline that leaves no more than that has no such alert.
        after: How long after the workflow was started, or the activity scheduled; no deadline is needed.
        at_instant: An instant: a datetime with a time zone; for workflows only.
        kinds: The deadlines that ``at`` and ``before`` are about: ``execution``, ``run`` and ``schedule_to_start`` of
            workflows, ``schedule_to_start``, ``start_to_close`` and ``schedule_to_close`` of activities; by default all
            that are set.
        channels: The names of channels to which it is delivered; ``Worker(alert_channels=…)`` and
            ``outlast watchdog --alerts`` say what stands behind a name.
        signal: The signal that tells the workflow itself. Its argument is a dict that says what came near when.

    Durations take seconds (int, float) or a timedelta.

    Raises:
        InvalidOptionError: A field is out of range, or there is nothing to tell.
    """

    __slots__ = ("after", "at", "at_instant", "at_instant_us", "before", "channels", "kinds", "signal")
    fields = ("at", "before", "after", "at_instant", "kinds", "channels", "signal")

    at: tuple[int | float, ...]
    before: tuple[int | float, ...]
    after: tuple[int | float, ...]
    at_instant: datetime | None
    kinds: tuple[AlertKind, ...] | None
    channels: tuple[str, ...]
    signal: str | None
    at_instant_us: int | None

    def __init__(
        self,
        *,
        at: Iterable[float] = (),
        before: Iterable[float | timedelta] = (),
        after: Iterable[float | timedelta] = (),
        at_instant: datetime | None = None,
        kinds: Iterable[AlertKind | str] | None = None,
        channels: Iterable[str] = (),
        signal: str | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("AlertPolicy", unknown, self.fields)
        shares = tuple(_share(one) for one in _several("at", at))
        leads = tuple(timeout_seconds("alerts before", one) for one in _several("before", before))
        waits = tuple(timeout_seconds("alerts after", one) for one in _several("after", after))
        instant = (
            None if at_instant is None else instant_of("alerts at_instant", at_instant, field="at_instant")
        )
        if not (shares or leads or waits or instant is not None):
            raise InvalidOptionError(
                "alerts need something to tell of: give at=, before=, after= or at_instant=", field="alerts"
            )
        named = None if kinds is None else tuple(_kind(one) for one in _several("kinds", kinds))
        if named is not None and not (named and (shares or leads)):
            raise InvalidOptionError(
                "alert kinds name the deadlines that at= and before= are about: give both, or leave kinds= away",
                field="kinds",
            )
        if signal is not None:
            signal = validate_name("alert signal", signal, segment=True)
            refuse_reserved("alert signal", signal, field="signal")
        told = tuple(channel_name(one) for one in _several("channels", channels))
        if len(told) > MOST_CHANNELS or len(set(told)) < len(told):
            raise InvalidOptionError(
                f"alert channels are at most {MOST_CHANNELS} names, each of them once", field="channels"
            )
        self._fill(shares, leads, waits, instant, named, told, signal)
        names = [name_of_share(one) for one in shares]
        names += [name_of_lead(one) for one in leads] + [name_of_wait(one) for one in waits]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InvalidOptionError(f"alerts name {doubled[0]} twice: give it once", field="alerts")
        if len(names) > MOST_MARKS:
            raise InvalidOptionError(
                f"alerts have at most {MOST_MARKS} marks, not {len(names)}: each is a row while it lies ahead",
                field="alerts",
            )

    def _fill(
        self,
        at: tuple[int | float, ...],
        before: tuple[int | float, ...],
        after: tuple[int | float, ...],
        at_instant: int | None,
        kinds: tuple[AlertKind, ...] | None,
        channels: tuple[str, ...],
        signal: str | None,
    ) -> None:
        self._set(
            {
                "at": at,
                "before": before,
                "after": after,
                "at_instant": None if at_instant is None else to_datetime(at_instant),
                "kinds": kinds,
                "channels": channels,
                "signal": signal,
                "at_instant_us": at_instant,
            }
        )

    def covers(self, kind: AlertKind) -> bool:
        """Return whether ``at`` and ``before`` are about this kind of deadline."""
        return self.kinds is None or kind in self.kinds

    def marks(self, deadline_at: int, total: int) -> list[tuple[str, int]]:
        """Return the name and the instant of each mark ahead of a deadline, in microseconds; never a moment early.

        Args:
            deadline_at: The deadline, in microseconds.
            total: How long it leaves in all, in microseconds.
        """
        found: list[tuple[str, int]] = []
        for share in self.at:
            # A share has six digits, so this is exact.
            left = _MILLION - round(share * _MILLION)
            if left:
                found.append((name_of_share(share), deadline_at - total * left // _MILLION))
        for lead in self.before:
            ahead = microseconds(lead)
            if ahead < total:
                found.append((name_of_lead(lead), deadline_at - ahead))
        return found

    def waits(self) -> list[tuple[str, int]]:
        """Return the name of each mark that needs no deadline, and how long after the begin it is, in microseconds."""
        return [(name_of_wait(wait), microseconds(wait)) for wait in self.after]

    @property
    def has_marks(self) -> bool:
        """Whether it has anything to tell of: a row that only rules have given alerts has no policy of its own."""
        return bool(self.at or self.before or self.after) or self.at_instant_us is not None

    @property
    def tells_of_the_end(self) -> bool:
        """Whether it has the mark of a deadline that is enforced."""
        return 1 in self.at

    def asks_for(self, kind: str, mark: str) -> bool:
        """Return whether it has a mark.

        Args:
            kind: The deadline that the mark is about, or ``after`` or ``at_instant``.
            mark: Its name.
        """
        if kind == AlertKind.AFTER:
            return mark in map(name_of_wait, self.after)
        if kind == AlertKind.AT_INSTANT:
            return self.at_instant_us is not None and mark == iso(self.at_instant_us)
        if not self.covers(AlertKind(kind)):
            return False
        return mark in map(name_of_share, self.at) or mark in map(name_of_lead, self.before)

    def to_document(self) -> dict[str, Any]:
        """Return the policy as a JSON document, durations in seconds, without what was not given."""
        document: dict[str, Any] = {
            name: list(values) for name in ("at", "before", "after") if (values := getattr(self, name))
        }
        if self.at_instant_us is not None:
            document["at_instant"] = iso(self.at_instant_us)
        if self.kinds is not None:
            document["kinds"] = [kind.value for kind in self.kinds]
        if self.channels:
            document["channels"] = list(self.channels)
        if self.signal is not None:
            document["signal"] = self.signal
        return document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Return the policy that :meth:`to_document` wrote, without validating it again."""
        policy = cls.__new__(cls)
        at_instant, kinds = document.get("at_instant"), document.get("kinds")
        policy._fill(
            tuple(document.get("at", ())),
            tuple(document.get("before", ())),
            tuple(document.get("after", ())),
            None if at_instant is None else from_datetime(datetime.fromisoformat(at_instant)),
            None if kinds is None else tuple(AlertKind(kind) for kind in kinds),
            tuple(document.get("channels", ())),
            document.get("signal"),
        )
        return policy


def read_policy(document: Any) -> AlertPolicy:
    """Return the policy of a document that anybody may have written.

    Raises:
        InvalidOptionError: It is no policy; the message says why.
    """
    if not isinstance(document, dict):
        raise InvalidOptionError('alerts must be an object, as in {"at": [0.8]}', field="alerts")
    given = dict(document)
    at = given.get("at_instant")
    if isinstance(at, str):
        try:
            given["at_instant"] = datetime.fromisoformat(at)
        except ValueError:
            raise InvalidOptionError(
                "alerts at_instant must be an instant by ISO 8601", field="at_instant"
            ) from None
    return AlertPolicy(**given)


def channel_name(name: Any) -> str:
    """Return the name of a channel.

    Raises:
        InvalidOptionError: It is none.
    """
    if not isinstance(name, str) or not _CHANNEL.fullmatch(name):
        raise InvalidOptionError(
            f"an alert channel is named by 1 to 64 letters, digits, - and _, not {name!r:.80}",
            field="channels",
        )
    return name


def name_of_share(share: float) -> str:
    """Return the name of a mark, as rows and people have it: ``80%``."""
    return f"{share * 100:.8g}%"


def name_of_lead(seconds: float) -> str:
    """Return the name of a mark so many seconds ahead of a deadline: ``-600s``."""
    return f"-{seconds:.15g}s"


def name_of_wait(seconds: float) -> str:
    """Return the name of a mark so many seconds after the begin: ``+3600s``."""
    return f"+{seconds:.15g}s"


def checked_alerts(value: Any) -> AlertPolicy:
    """Return an alert policy.

    Raises:
        InvalidOptionError: It is none.
    """
    if not isinstance(value, AlertPolicy):
        raise InvalidOptionError(
            f"alerts must be an AlertPolicy, not {type(value).__name__}: AlertPolicy(at=[0.8])",
            field="alerts",
        )
    return value


def alerts_of_workflow(value: Any) -> AlertPolicy:
    """Return the alert policy of a workflow.

    Raises:
        InvalidOptionError: It is none, or it names deadlines that a workflow does not have.
    """
    policy = checked_alerts(value)
    _check_kinds(policy, OF_WORKFLOWS, "workflows")
    return policy


def alerts_of_activity(value: Any) -> AlertPolicy:
    """Return the alert policy of an activity.

    Raises:
        InvalidOptionError: It is none, or it names what an activity does not have.
    """
    policy = checked_alerts(value)
    _check_kinds(policy, OF_ACTIVITIES, "activities")
    if policy.at_instant is not None:
        raise InvalidOptionError(
            "at_instant is for workflows: give an activity after=, which counts from its scheduling",
            field="at_instant",
        )
    return policy


def check_deadlines(policy: AlertPolicy, there: Iterable[AlertKind], advice: str) -> None:
    """Refuse a policy whose ``at`` and ``before`` are about deadlines none of which is there.

    Args:
        policy: The policy.
        there: The kinds of deadlines that are set.
        advice: What to do about it.

    Raises:
        InvalidOptionError: None of its deadlines is set.
    """
    if (policy.at or policy.before) and not any(policy.covers(kind) for kind in there):
        named = "" if policy.kinds is None else f" ({', '.join(policy.kinds)})"
        raise InvalidOptionError(
            f"alerts at= and before= need a deadline that they are about{named}: {advice}", field="alerts"
        )


def _check_kinds(policy: AlertPolicy, known: tuple[AlertKind, ...], noun: str) -> None:
    for kind in policy.kinds or ():
        if kind not in known:
            raise InvalidOptionError(
                f"alert kinds of {noun} are {', '.join(known)}, not {kind}", field="kinds"
            )


def _several(field: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidOptionError(f"alerts {field} must be a list, as in [{values!r:.40}]", field=field)
    return tuple(values)


def _share(value: Any) -> int | float:
    # So few digits that no share but 1 is named 100%.
    share = number("alerts at", round(number("alerts at", value, 0, 1), 6), 0)
    if share == 0:
        raise InvalidOptionError(
            "alerts at must be more than 0 and at most 1: the share of the time that is used up", field="at"
        )
    return share


def _kind(value: Any) -> AlertKind:
    if value == "heartbeat":
        raise InvalidOptionError(
            "a heartbeat deadline moves with every beat, so it has no alerts: leave it out of kinds",
            field="kinds",
        )
    if value not in DEADLINES:
        raise InvalidOptionError(f"alert kinds are {', '.join(DEADLINES)}, not {value!r:.40}", field="kinds")
    return AlertKind(value)


class StoredAlerts(NamedTuple):
    """What a workflow's row says of alerts.

    Attributes:
        policies: Its own policy, and those that rules of operators have added; one at least.
        since: When the first run of the chain was created, in microseconds.
    """

    policies: tuple[AlertPolicy, ...]
    since: int


@lru_cache(maxsize=1024)
def read_stored(text: str) -> StoredAlerts | None:
    """Return what a workflow's row says; ``None`` if it cannot be read. Cached.

    Args:
        text: What :func:`stored` and :func:`with_rule` have written.
    """
    try:
        document = orjson.loads(text)
        own = AlertPolicy.from_document(document)
        rules = tuple(AlertPolicy.from_document(rule) for rule in document.get(_RULES, ()))
        return StoredAlerts((own, *rules) if own.has_marks else rules, int(document["since"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def stored(policy: AlertPolicy, since: int) -> str:
    """Return the text of a workflow's row.

    Args:
        policy: The policy.
        since: When the first run of the chain was created, in microseconds.
    """
    return orjson.dumps({**policy.to_document(), "since": since}).decode()


def with_rule(text: str | None, policy: AlertPolicy, since: int) -> str | None:
    """Return the text of a row to which a rule adds its policy; ``None`` if the row has it, or no room for it.

    Args:
        text: The text of the row, if it has one.
        policy: The policy of the rule.
        since: When the first run of the chain was created, in microseconds; it counts where the row has no text.
    """
    document: dict[str, Any] = {"since": since} if text is None else orjson.loads(text)
    rules, rule = document.setdefault(_RULES, []), policy.to_document()
    if rule in rules or len(rules) == MOST_RULES_OF_A_RUN:
        return None
    rules.append(rule)
    return orjson.dumps(document).decode()


def dated(text: str, since: int) -> str:
    """Return the text of a row whose chain begins anew.

    Args:
        text: The text of the row that it is taken from.
        since: When the new chain begins, in microseconds.
    """
    return orjson.dumps({**orjson.loads(text), "since": since}).decode()
