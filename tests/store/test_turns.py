"""Whose turn it is, against a naive dealer."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from outlast_store.queues.turns import UNBOUNDED, deal

NAMES = st.sampled_from(["", "a", "b", "c", "d", "e"])
LINES = st.dictionaries(NAMES, st.lists(st.integers(), max_size=6), max_size=6)
ROOMS = st.dictionaries(NAMES, st.integers(0, 4), max_size=6)


@given(LINES, ROOMS, st.integers(0, 20))
def test_rooms_hold_and_order_is_kept(lines: dict[str, list[int]], rooms: dict[str, int], room: int) -> None:
    dealt = deal(lines, rooms, room)
    assert len(dealt.chosen) <= room
    for partition, line in lines.items():
        mine = [item for name, item in dealt.chosen if name == partition]
        assert mine == line[: len(mine)]
        assert len(mine) <= rooms.get(partition, UNBOUNDED)
    could = sum(min(len(line), rooms.get(partition, UNBOUNDED)) for partition, line in lines.items())
    assert len(dealt.chosen) == min(room, could)
    assert dealt.left == (could > room)


@given(LINES, ROOMS, st.integers(0, 20))
def test_turns_are_fair(lines: dict[str, list[int]], rooms: dict[str, int], room: int) -> None:
    served = Counter(name for name, _ in deal(lines, rooms, room).chosen)
    for one, line in lines.items():
        if served[one] < min(len(line), rooms.get(one, UNBOUNDED)):
            # One that could have had more is at most one turn behind any other.
            assert all(count <= served[one] + 1 for count in served.values())


@given(LINES, ROOMS, st.integers(1, 3), NAMES)
def test_every_partition_is_served_within_one_rotation(
    lines: dict[str, list[int]], rooms: dict[str, int], room: int, cursor: str
) -> None:
    waiting = {name: list(line) for name, line in lines.items() if line}
    able = {name for name in waiting if rooms.get(name, UNBOUNDED) > 0}
    served: list[str] = []
    at: str | None = cursor
    for _ in range(len(able)):
        after = [name for name in sorted(waiting) if at is None or name > at]
        turns = after + [name for name in sorted(waiting) if name not in after]
        dealt = deal({name: waiting[name] for name in turns}, rooms, room)
        served += [name for name, _ in dealt.chosen]
        at = dealt.cursor if dealt.cursor is not None else at
    assert set(served) >= able


def test_the_cursor_is_the_partition_served_last() -> None:
    dealt = deal({"b": [1, 2], "c": [3], "a": [4]}, {"c": 0}, 3)
    assert dealt.chosen == [("b", 1), ("a", 4), ("b", 2)]
    assert dealt.cursor == "b"
    assert not dealt.left
