"""``alerts.toml``: the channels and the rules of a watchdog, read whole before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from outlast.alerts.channels import AlertChannel, checked_channels
from outlast.alerts.webhook import Webhook
from outlast.text.parsing import duration
from outlast_watchdog.rules import AlertRule, checked_rules
from outlast_workflow.errors import InvalidOptionError, OutlastError
from outlast_workflow.options.alerts import AlertPolicy
from outlast_workflow.options.other_names import advice


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Channel(_Strict):
    url: str | None = None
    function: str | None = None
    secret_env: str | None = None
    timeout: float = 10
    allow_http: bool = False
    allow_private: bool = False
    ca_file: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> _Channel:
        if (self.url is None) == (self.function is None):
            raise ValueError("give either url or function")
        if self.function is not None and self.model_fields_set != {"function"}:
            raise ValueError("a function has no other settings")
        return self


class _Rule(_Strict):
    workflow_type: str | None = None
    task_queue: str | None = None
    at: list[float] = []
    before: list[float | str] = []
    after: list[float | str] = []
    at_instant: datetime | None = None
    kinds: list[str] | None = None
    channels: list[str] = []
    signal: str | None = None


class _File(_Strict):
    channels: dict[str, Any] = {}
    rules: list[Any] = []


@dataclass(frozen=True, slots=True)
class AlertsFile:
    """What a file says.

    Attributes:
        channels: What stands behind the names of channels.
        rules: Which workflows get alerts.
    """

    channels: Mapping[str, AlertChannel]
    rules: tuple[AlertRule, ...]


def read_alerts_file(path: Path, load: Callable[[str], Any]) -> AlertsFile:
    """Read a file.

    Args:
        path: The file.
        load: Returns what a ``MODULE:NAME`` names.

    Raises:
        InvalidOptionError: It cannot be read, or something in it cannot be used; the message names all of that.
    """
    try:
        with path.open("rb") as opened:
            document = tomllib.load(opened)
    except OSError as error:
        raise _bad(path, [f"it cannot be read: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, [f"it is no TOML: {error}"]) from None
    known = tuple(_File.model_fields)
    problems = [
        f"{name}: there is no such table: {advice(name, known)}" for name in document if name not in known
    ]
    channels: dict[str, AlertChannel] = {}
    rules: list[AlertRule] = []
    try:
        read = _File.model_validate({name: document[name] for name in known if name in document})
    except ValidationError as error:
        problems += [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        read = _File()
    # Each is read alone, so that what is wrong with one hides nothing of the others.
    for name, given in read.channels.items():
        try:
            channel = _Channel.model_validate(given)
            channels |= checked_channels({name: _channel_of(channel, path, load)})
        except ValidationError as error:
            problems += [_words(f"channels.{name}", ".", one, _Channel) for one in error.errors()]
        except OutlastError as error:
            problems.append(f"channels.{name}: {error}")
    for number, given in enumerate(read.rules, 1):
        try:
            rules.append(_rule_of(_Rule.model_validate(given)))
        except ValidationError as error:
            problems += [_words(f"rule {number}", " ", one, _Rule) for one in error.errors()]
        except OutlastError as error:
            problems.append(f"rule {number}: {error}")
    if problems:
        raise _bad(path, problems)
    if not (channels or rules):
        raise _bad(path, ["it has neither channels nor rules: [channels.oncall], [[rules]]"])
    return AlertsFile(channels, checked_rules(rules))


def _channel_of(channel: _Channel, path: Path, load: Callable[[str], Any]) -> Any:
    if channel.function is not None:
        return load(channel.function)
    assert channel.url is not None
    settings = channel.model_dump(exclude={"url", "function"})
    if channel.ca_file is not None:
        settings["ca_file"] = path.parent / channel.ca_file
    return Webhook(channel.url, **settings)


def _rule_of(rule: _Rule) -> AlertRule:
    policy = AlertPolicy(
        at=rule.at,
        before=[_seconds("before", one) for one in rule.before],
        after=[_seconds("after", one) for one in rule.after],
        at_instant=rule.at_instant,
        kinds=rule.kinds,
        channels=rule.channels,
        signal=rule.signal,
    )
    return AlertRule(workflow_type=rule.workflow_type, task_queue=rule.task_queue, policy=policy)


def _seconds(field: str, value: float | str) -> float:
    if isinstance(value, str):
        return duration(f"alerts {field}", value) or 0
    return value


def _words(owner: str, joined: str, error: Any, model: type[BaseModel]) -> str:
    """Return what is wrong with a channel or a rule."""
    place = joined.join([owner, *map(str, error["loc"])])
    if error["type"] == "extra_forbidden":
        return f"{place}: there is no such setting: {advice(str(error['loc'][0]), tuple(model.model_fields))}"
    return f"{place}: {error['msg'].removeprefix('Value error, ')}"


def _bad(path: Path, problems: list[str]) -> InvalidOptionError:
    listed = "".join(f"\n  {one}" for one in problems)
    return InvalidOptionError(f"{path} cannot be used:{listed}", field="alerts")
