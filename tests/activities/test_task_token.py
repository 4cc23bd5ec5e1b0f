from __future__ import annotations

import re
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast_activities.task_token import make_token, read_token
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import MAX_INTEGER

RUN_IDS = st.from_regex(r"[!-~]{1,80}", fullmatch=True)
NUMBERS = st.integers(1, MAX_INTEGER)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


@given(RUN_IDS, NUMBERS, NUMBERS)
def test_a_token_names_its_attempt_and_goes_into_any_url(run_id: str, activity_id: int, attempt: int):
    token = make_token((run_id, activity_id, attempt))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)
    assert read_token(token) == (run_id, activity_id, attempt)


@given(st.text() | st.from_regex(r"[A-Za-z0-9_=-]{1,60}", fullmatch=True))
def test_other_text_is_refused_with_a_typed_error(text: str):
    with pytest.raises(InvalidOptionError, match=r"activity.info\(\).task_token unchanged") as caught:
        read_token(text)
    assert caught.value.field == "task_token"
    assert len(text) < 12 or text not in str(caught.value)


@pytest.mark.parametrize(
    "token",
    [
        None,
        7,
        b"abc",
        encoded("2:run:1:1"),
        encoded("1:run:0:1"),
        encoded("1:run:1:0"),
        encoded("1:run:01:1"),
        encoded("1:run:+1:1"),
        encoded("1:run:1"),
        encoded("1::1:1"),
        encoded("1:r\nn:1:1"),
        encoded(f"1:run:{MAX_INTEGER + 1}:1"),
        make_token(("run", 1, 1)) + "=",
        make_token(("run", 1, 1)) + "\n",
        make_token(("r" * 2000, 1, 1)),
    ],
)
def test_what_only_resembles_a_token_is_refused(token: object):
    with pytest.raises(InvalidOptionError):
        read_token(token)
