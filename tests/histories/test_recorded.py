"""The last test of a session: what the others recorded replays elsewhere."""

from __future__ import annotations

import pytest
from tests.recorded import Recorder


@pytest.mark.last
def test_every_history_of_this_session_replays_in_another_process_with_another_hash_seed(
    recorder: Recorder,
) -> None:
    wrong = recorder.replay_elsewhere()
    assert not wrong, f"{recorder.count} histories were replayed:\n{wrong}"
