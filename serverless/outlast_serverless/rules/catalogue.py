"""All codes: what each is about, and whether it is an error or a warning."""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """A rule.

    Attributes:
        says: What is wrong, in a line.
        warning: Whether the document can be used all the same.
        lenient: Whether it is only a warning where the reader asks for leniency.
    """

    says: str
    warning: bool = False
    lenient: bool = False


def _warning(says: str) -> Rule:
    return Rule(says, warning=True)


TEXT: Final = {
    "too_large": Rule("The text is longer than 256 KiB."),
    "not_utf8": Rule("The text is not UTF-8, or an escape makes half of a character."),
    "syntax": Rule("The text is neither YAML 1.2 nor JSON."),
    "empty": Rule("There is nothing in the text."),
    "several_documents": Rule("A second YAML document begins in the text."),
    "duplicate_key": Rule("A mapping has a key twice."),
    "non_text_key": Rule("A key is a number, a boolean, null, a list or a mapping."),
    "merge_key": Rule("`<<` merges nothing in YAML 1.2."),
    "unknown_tag": Rule("A YAML tag makes no JSON of its value."),
    "recursive_alias": Rule("An alias stands inside of what it names."),
    "too_many_nodes": Rule("There are more than 50,000 values, or 1 MiB of text, once aliases are expanded."),
    "too_deep": Rule("The nesting is deeper than 64 levels."),
    "not_finite": Rule("`.inf` and `.nan` are no JSON."),
    "number_range": Rule("64 bits do not hold the number."),
}
"""What can be wrong with the text."""

FORM: Final = {
    "unknown_property": Rule("The schema knows no such property."),
    "missing_property": Rule("A property that the schema requires is missing."),
    "wrong_type": Rule("The value is of another type than the schema wants."),
    "wrong_value": Rule("The value is none of those that the schema lists, or out of its range."),
    "wrong_format": Rule("The text has not the form that the schema wants."),
    "too_few": Rule("The list or mapping is empty and must not be."),
    "too_many": Rule("The mapping has more keys than it can have, or keys that exclude each other."),
    "not_a_task": Rule("The task says not what to do."),
    "several_kinds": Rule("The task says several things that it does."),
    "not_valid": Rule("The schema refuses the document."),
    "newer_feature": _warning("It is valid only by the schema that follows 1.0.3."),
    "number_as_text": _warning("A header or query parameter is a number or boolean; it is sent as text."),
    "arguments_as_map": _warning(
        "The arguments of a process are a mapping; they are given as `--key value`."
    ),
    "scalar_items": Rule("An inline list of `for.in` has items that are no mappings.", lenient=True),
}
"""What the schema can have against a definition."""

MEANING: Final = {
    "unknown_root_key": Rule("The document has a key at its root that the DSL does not know.", lenient=True),
    "unsupported_dsl": Rule("`document.dsl` is no 1.x."),
    "newer_dsl": _warning("`document.dsl` is newer than 1.0.3."),
    "unknown_language": Rule("`evaluate.language` is not jq."),
    "too_many_tasks": Rule("There are more than 5,000 tasks."),
    "unknown_timeout": Rule(
        "A timeout is a name that `use.timeouts` does not have; `timeout: PT5S` is such a name."
    ),
    "unknown_retry": Rule("`retry` names nothing in `use.retries`."),
    "unknown_error": Rule("`raise.error` names nothing in `use.errors`."),
    "unknown_function": Rule("`call` names nothing in `use.functions`, and no protocol."),
    "unknown_authentication": Rule("`authentication.use` names nothing in `use.authentications`."),
    "unknown_catalog": Rule("`call: name:version@catalog` names nothing in `use.catalogs`."),
    "unknown_secret": Rule("A secret is used that `use.secrets` does not name."),
    "catalog_function": Rule("A function of a catalog is not named as `name:version@catalog`."),
    "recursive_function": Rule("A function calls itself, perhaps through others."),
    "unused_component": _warning("Nothing uses what is defined under `use`."),
    "duplicate_secret": _warning("`use.secrets` has a name twice."),
    "empty_task_list": Rule("A list of tasks is empty."),
    "duplicate_task": Rule("Two tasks of a list have one name."),
    "reserved_task_name": Rule("A task is named continue, exit or end."),
    "unknown_target": Rule("`then` names no task of the list."),
    "target_in_other_scope": Rule("`then` names a task of another list."),
    "branch_target": Rule("`then` leads from one branch of a fork to another."),
    "endless_loop": Rule("A task goes on to itself, always."),
    "unreachable_task": _warning("Nothing goes on to the task."),
    "single_branch": _warning("A fork has one branch."),
    "several_defaults": Rule("Two cases of a switch have no `when`."),
    "default_not_last": _warning("Cases stand after the default of a switch."),
    "duplicate_case": Rule("Two cases of a switch have one name."),
    "schedule_without_trigger": Rule("`schedule` has none of every, cron, after and on."),
    "several_triggers": Rule("`schedule` has several of every, cron, after and on."),
    "schedule_expression": Rule("A duration of `schedule` is an expression."),
    "invalid_cron": Rule("The cron text cannot be read."),
    "duration_not_positive": Rule("A duration is zero or negative."),
    "duration_too_long": Rule("A duration is longer than a hundred years."),
    "calendar_duration": Rule("A duration has years or months."),
    "lookback": Rule("`metadata.outlast.lookback` is no duration."),
    "amount_not_positive": Rule("`consume.amount` is less than 1."),
    "retry_count": Rule("`limit.attempt.count` is less than 1."),
    "endless_retry": _warning("Nothing ends the retries."),
    "backoff_without_delay": _warning("A backoff has no delay to grow."),
    "attempt_outlasts_limit": _warning("One attempt may take longer than all together."),
    "jitter_range": Rule("The jitter begins after its end."),
    "silent_catch": _warning("A `catch` catches every error and does nothing about it."),
    "unknown_filter": _warning("An error filter compares what errors do not have."),
    "unknown_error_type": _warning("A URI of the standard's errors ends in a name that it does not have."),
    "error_status": Rule("The status of an error is not from 100 to 599."),
    "error_instance": Rule("The instance of an error is no JSON pointer."),
    "empty_expression": Rule("An expression is empty."),
    "long_expression": Rule("An expression is longer than 16 KiB."),
    "invalid_expression": Rule("An expression is no jq."),
    "embedded_expression": _warning("A text has `${` inside, and is no expression as a whole."),
    "unknown_variable": Rule("An expression uses a variable that nothing sets."),
    "variable_not_available": Rule("An expression uses a variable that is not there at this place."),
    "forbidden_builtin": Rule("An expression uses a function of jq whose outcome a replay would not repeat."),
    "secret_recorded": Rule("`$secrets` stands where its value would be written to history."),
    "authorization_recorded": Rule("`$authorization` stands where its value would be written to history."),
    "variable_name": Rule("`each`, `at`, `item` or `as` cannot name a variable."),
    "reserved_variable": Rule("`each`, `at`, `item` or `as` takes a name that has a meaning."),
    "same_variable": Rule("Two variables of one loop have one name."),
    "hidden_variable": _warning("A variable hides the one of a task around it."),
    "duplicate_extension": Rule("Two extensions have one name."),
    "idle_extension": _warning("An extension has neither `before` nor `after`."),
    "invalid_schema": Rule("A schema is no JSON Schema."),
    "schema_reference": Rule("A schema refers to what is not in it."),
    "schema_format": Rule("A schema is not of the format json."),
    "unknown_method": Rule("HTTP has no such method."),
    "body_ignored": _warning("A GET or HEAD has a body."),
    "duplicate_header": Rule("A header is there twice, in other letters."),
    "uri_template": Rule("The braces of a URI template do not match, or name nothing."),
    "unknown_scheme": Rule("An endpoint has a scheme that nothing is called by."),
    "no_agent": Rule("`call: a2a` names no agent."),
    "no_events": Rule("`all` lists no event."),
    "no_correlation": _warning("`correlate` has no key."),
    "nested_until": Rule("`until` stands in an `until`."),
    "event_attribute": Rule("A name is no attribute of a CloudEvent."),
    "event_version": Rule("`specversion` is not 1.0."),
    "event_time": Rule("The time of an event is no instant."),
    "empty_loop": _warning("`for.in` is an empty list."),
    "return_without_await": _warning("`return` stands beside `await: false`."),
    "return_of_workflow": _warning("`return` stands beside `run.workflow`."),
    "unknown_script_language": _warning("A script is in a language that the standard does not know."),
    "subflow_version": Rule("The version of a subflow is neither semantic nor latest."),
    "recursive_workflow": _warning("A workflow starts itself, always."),
}
"""What can be wrong with a definition of the right form."""

RULES: Final[dict[str, Rule]] = {**TEXT, **FORM, **MEANING}
