"""Markers that workflow code records: side effects, patches, memo, attributes. Part of ``outlast.workflow``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from outlast_workflow.api.context import current_machine
from outlast_workflow.errors import (
    DurableCallError,
    InvalidOptionError,
    PayloadEncodeError,
    StructuralLimitError,
)
from outlast_workflow.history.events import (
    MemoUpserted,
    SearchAttributesUpserted,
    SideEffectRecorded,
    VersionMarkerRecorded,
)
from outlast_workflow.options.search_attributes import (
    SearchValue,
    checked_attributes,
    merged,
    size_of,
    to_document,
)
from outlast_workflow.options.validation import validate_name
from outlast_workflow.primitives.payloads import NOT_NEEDED, Payload
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.recorded_markers import NotRecordedError

T = TypeVar("T")


def side_effect(fn: Callable[[], T], *, result_type: type[T] | None = None) -> T:
    """Compute a value once and record it: every replay gets the same one.

    Use it for what is quick, cannot fail and needs no retry: reading a setting, a clock, an environment variable.
    Anything else is an activity. A workflow task that could not be committed is repeated, and so is ``fn``.

    Args:
        fn: A plain function without arguments; it may not make durable calls.
        result_type: The type to read the recorded value as; by default the return annotation of ``fn``.

    Returns:
        The value, as read from the record.

    Raises:
        DurableCallError: ``fn`` raised, is a coroutine function or made a durable call; fails the task, not the run.
    """
    machine = current_machine()
    log = machine.log
    command_id = log.next_id()
    what = f"side effect {command_id}"
    if machine.replaying:
        recorded = machine.markers.values.get(command_id)
        log.add(SideEffectRecorded(command_id, NOT_NEEDED))
        if recorded is None:
            raise log.refuse(NotRecordedError(f"{what} was not recorded"))
        payload = recorded
    else:
        payload = _computed(machine, fn, command_id, what)
        log.add(SideEffectRecorded(command_id, payload))
    hint = result_type if result_type is not None else _return_hint(fn)
    value: T = machine.converter.decode(payload, hint, what)
    return value


def _computed(machine: WorkflowMachine, fn: Callable[[], Any], command_id: int, what: str) -> Payload:
    log = machine.log
    if inspect.iscoroutinefunction(fn):
        raise log.refuse(
            DurableCallError(f"{what} must be a plain function: to await something, use an activity")
        )
    try:
        value = fn()
    except Exception as error:
        raise log.refuse(
            DurableCallError(f"{what} raised {type(error).__name__}: what may fail belongs in an activity")
        ) from error
    if log.last_id != command_id:
        raise log.refuse(DurableCallError(f"{what} made a durable call: make it in the workflow itself"))
    try:
        payload = machine.converter.encode(value, what)
        log.check("payload_bytes", len(payload.json))
    except (PayloadEncodeError, StructuralLimitError) as error:
        raise log.refuse(error) from None
    return payload


def _return_hint(fn: Callable[[], Any]) -> Any:
    try:
        return get_type_hints(fn).get("return")
    # A callable without hints, or with hints that cannot be resolved, returns plain JSON.
    except Exception:
        return None


def patched(patch_id: str) -> bool:
    """Return whether this run takes the new path: true, and recorded, if the code gets here for the first time live.

    A run that passed this point before the patch was deployed keeps the old path: in replay the answer is true only if
    the workflow task that is being replayed recorded it. The first answer holds for the rest of the run.

    Args:
        patch_id: The patch's name, unique within this workflow.
    """
    machine = current_machine()
    known = machine.patches.get(patch_id)
    if known is None:
        known = _first_answer(machine, patch_id)
        if known:
            machine.log.add(VersionMarkerRecorded(patch_id))
    return known


def deprecate_patch(patch_id: str) -> None:
    """Keep replaying histories of a patch whose old path is gone from the code.

    Put it where ``patched`` was. Remove it once every run that recorded the patch has ended.
    """
    machine = current_machine()
    if patch_id not in machine.patches and _first_answer(machine, patch_id):
        machine.log.add(VersionMarkerRecorded(patch_id, deprecated=True))


def _first_answer(machine: WorkflowMachine, patch_id: str) -> bool:
    if machine.replaying:
        answer = patch_id in machine.markers.patches
    else:
        try:
            validate_name("patch id", patch_id)
        except InvalidOptionError as error:
            raise machine.log.refuse(error) from None
        answer = True
    machine.patches[patch_id] = answer
    return answer


def upsert_memo(memo: Mapping[str, Any]) -> None:
    """Set fields of the run's memo; ``None`` removes one. ``describe`` shows the memo, and the next run inherits it.

    Raises:
        DurableCallError: It is not a mapping with text keys; fails the task, not the run.
        PayloadEncodeError: A value has no JSON form; fails the task, not the run.
    """
    machine = current_machine()
    log = machine.log
    given: Any = memo
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise log.refuse(DurableCallError("upsert_memo takes a dict with text keys"))
    merged = {**machine.info().memo, **memo}
    try:
        payload = machine.converter.encode(
            {key: value for key, value in merged.items() if value is not None}, "the memo"
        )
        if not machine.replaying:
            log.check("memo_bytes", len(payload.json))
    except (PayloadEncodeError, StructuralLimitError) as error:
        raise log.refuse(error) from None
    machine.memo = payload
    log.add(MemoUpserted(payload))


def upsert_search_attributes(attributes: Mapping[str, SearchValue | None]) -> None:
    """Set search attributes of the run; ``None`` removes one. ``client.list`` and ``count`` find the run by them.

    Args:
        attributes: Names and values: text, whole numbers, floats, booleans, aware datetimes, lists of texts.

    Raises:
        InvalidOptionError: A name or a value is not allowed; fails the task, not the run.
        StructuralLimitError: All attributes together have become too large; fails the run.
    """
    _upsert(current_machine(), attributes, reserved=False)


def set_reserved_attributes(attributes: Mapping[str, SearchValue | None]) -> None:
    """Set search attributes that only workflows of Outlast itself have: a DAG's. Not part of ``outlast.workflow``.

    Args:
        attributes: Names and values; ``None`` removes one.

    Raises:
        StructuralLimitError: All attributes together have become too large; fails the run.
    """
    _upsert(current_machine(), attributes, reserved=True)


def _upsert(
    machine: WorkflowMachine, attributes: Mapping[str, SearchValue | None], *, reserved: bool
) -> None:
    log = machine.log
    try:
        document = to_document(checked_attributes(attributes, removals=True, reserved=reserved))
    except InvalidOptionError as error:
        raise log.refuse(error) from None
    after = merged(machine.current_attributes(), document)
    if not machine.replaying:
        log.check("search_attributes_bytes", size_of(after))
    machine.search_attributes = after
    log.add(SearchAttributesUpserted(document))
