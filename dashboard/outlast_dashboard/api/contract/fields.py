"""The fields of requests, as the OpenAPI document describes them.

The document says what is allowed, but the engine's validator checks it: its messages name the field and say what to
do. Pydantic therefore sees plain types that carry a description.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Header, Path, Query
from pydantic import AfterValidator, StrictFloat, StrictInt, StrictStr, WithJsonSchema

from outlast_activities.task_token import MOST_CHARACTERS
from outlast_dashboard.encoded_paths import decoded
from outlast_workflow.options.search_attributes import MOST_TEXT_BYTES
from outlast_workflow.options.validation import (
    MAX_INTEGER,
    MAX_NAME_LENGTH,
    MAX_NOTE_LENGTH,
    MAX_REASON_LENGTH,
    MAX_SECONDS,
)

MAX_WAIT_S: Final = 60
"""The longest time that a request may wait, in seconds: proxies cut longer ones."""

# No control characters, and not only spaces. (Lone surrogates are refused too, but JSON cannot contain them.)
_CONTROLS: Final = r"\u0000-\u001F\u007F-\u009F"
_NAME_PATTERN: Final = f"^[^{_CONTROLS}]*[^\\s{_CONTROLS}][^{_CONTROLS}]*$"

NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_NAME_LENGTH,
    "pattern": _NAME_PATTERN,
}

# A reserved name is `outlast`, or begins with it and a dot or an underscore.
_NOT_RESERVED: Final = "^(?!outlast(?:[._]|$))"

Name = Annotated[StrictStr, WithJsonSchema(NAME_SCHEMA)]
# What becomes a segment of a path: neither `.` nor `..`.
_SEGMENT: Final[dict[str, Any]] = {
    **NAME_SCHEMA,
    "pattern": "^(?!\\.{1,2}$)" + _NAME_PATTERN.removeprefix("^"),
}

Segment = Annotated[StrictStr, WithJsonSchema(_SEGMENT)]
OwnName = Annotated[
    StrictStr, WithJsonSchema({**NAME_SCHEMA, "pattern": _NOT_RESERVED + _NAME_PATTERN.removeprefix("^")})
]
OwnSegment = Annotated[
    StrictStr,
    WithJsonSchema(
        {**NAME_SCHEMA, "pattern": "^(?!\\.{1,2}$)" + _NOT_RESERVED.removeprefix("^") + _NAME_PATTERN[1:]}
    ),
]
Reason = Annotated[StrictStr, WithJsonSchema({"type": "string", "maxLength": MAX_REASON_LENGTH})]
Note = Annotated[StrictStr, WithJsonSchema({"type": "string", "maxLength": MAX_NOTE_LENGTH})]
Timeout = Annotated[StrictFloat, WithJsonSchema({"type": "number", "minimum": 1, "maximum": MAX_SECONDS})]
Duration = Annotated[StrictFloat, WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_SECONDS})]
Wait = Annotated[
    StrictFloat,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_WAIT_S}),
]
Token = Annotated[
    StrictStr, WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": MOST_CHARACTERS})
]
ActivityNumber = Annotated[
    StrictInt, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_INTEGER})
]
Priority = Annotated[StrictInt, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 9})]

SearchAttributes = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {
                "pattern": f"{_NOT_RESERVED}[A-Za-z_][A-Za-z0-9_]*$",
                "maxLength": MAX_NAME_LENGTH,
            },
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "maxLength": MOST_TEXT_BYTES},
                    {"type": "number"},
                    {"type": "boolean"},
                    {"type": "array", "items": {"type": "string", "maxLength": MOST_TEXT_BYTES}},
                ]
            },
        }
    ),
]

_Decoded = Annotated[str, AfterValidator(decoded), WithJsonSchema(_SEGMENT)]
WorkflowId = Annotated[_Decoded, Path(description="The workflow id, percent-encoded.")]
HandlerName = Annotated[_Decoded, Path(description="The handler's name, percent-encoded.")]
MemoName = Annotated[_Decoded, Path(description="The name of the field of the memo, percent-encoded.")]
StreamName = Annotated[_Decoded, Path(description="The stream's name, percent-encoded.")]
QueueName = Annotated[_Decoded, Path(description="The queue's name, percent-encoded.")]
ScheduleId = Annotated[_Decoded, Path(description="The schedule's id, percent-encoded.")]
WaitQuery = Annotated[
    float,
    Query(description="How long to wait at most, in seconds; 0 looks once."),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_WAIT_S}),
]
RunId = Annotated[
    str | None,
    Query(description="A run of the workflow; by default the current one."),
]
IdempotencyKey = Annotated[
    str | None,
    Header(description="A key of your own: requests with the same key are carried out once.", min_length=1),
    WithJsonSchema(NAME_SCHEMA),
]
