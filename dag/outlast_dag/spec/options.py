"""The options of calls in a spec: a part of the engine's, left out where they are the DAG's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.retry_policy import RetryPolicy

DEFAULT_RETRY: Final = RetryPolicy(max_attempts=3)
"""How a DAG retries what names no policy. Unlike an activity's own default it ends, so that a worst case exists."""

OPTIONS: Final = tuple(
    name for name in ActivityOptions.fields if name not in ("cancellation_type", "summary")
)
"""What a spec may say of a call. What its cancellation waits for and how it is labelled is the interpreter's."""

TIMEOUTS: Final = tuple(name for name in OPTIONS if name.endswith("_timeout"))


def read_options(given: Mapping[str, Any]) -> tuple[ActivityOptions, list[tuple[str, str]]]:
    """Return the options that are sound, and the kind and message of each problem with the others.

    Args:
        given: Options by name; the retry policy as a policy or a number of attempts.
    """
    problems: list[tuple[str, str]] = []
    sound: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        try:
            sound[name] = getattr(
                ActivityOptions(**{name: _policy(value) if name == "retry_policy" else value}), name
            )
        except InvalidOptionError as error:
            problems.append(("timeout_out_of_range" if name in TIMEOUTS else "bad_option", error.message))
    try:
        return ActivityOptions(**sound), problems
    except InvalidOptionError as error:
        problems.append(("contradicting_timeouts", error.message))
        return ActivityOptions(
            **{name: value for name, value in sound.items() if name not in TIMEOUTS}
        ), problems


def _policy(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return RetryPolicy(max_attempts=value)
    return value


def without_defaults(options: ActivityOptions, defaults: ActivityOptions) -> ActivityOptions:
    """Return the options in which a call differs from its DAG's.

    Args:
        options: All options of the call.
        defaults: The DAG's.
    """
    return ActivityOptions(
        **{
            name: value
            for name in OPTIONS
            if (value := getattr(options, name)) is not None and value != getattr(defaults, name)
        }
    )


def options_document(options: ActivityOptions) -> dict[str, Any]:
    """Return options as JSON."""
    document = {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}
    if options.retry_policy is not None:
        document["retry_policy"] = policy_document(options.retry_policy)
    return document


def policy_document(policy: RetryPolicy) -> dict[str, Any]:
    """Return in what a policy differs from a DAG's default one."""
    usual = DEFAULT_RETRY.replace(initial_interval=policy.initial_interval).to_document()
    usual["initial_interval"] = DEFAULT_RETRY.initial_interval
    return {name: value for name, value in policy.to_document().items() if value != usual[name]}


def policy_of(document: Mapping[str, Any]) -> RetryPolicy:
    """Return the policy of a document.

    Raises:
        InvalidOptionError: A field is unknown or out of range.
    """
    unknown = sorted(document.keys() - set(RetryPolicy.fields))
    if unknown:
        raise InvalidOptionError(
            f"retry policy has no {', '.join(unknown)}: it has {', '.join(RetryPolicy.fields)}",
            field="retry_policy",
        )
    return DEFAULT_RETRY.replace(**document)
