"""What breaks the rules about streams, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, run_of

OF = f"first_run_id = {run_of('published')} AND name = 'both'"


def change_items(what: str, which: str) -> str:
    return f"UPDATE stream_items SET {what} WHERE {OF} AND {which}"


PLANTED: Planted = [
    (f"DELETE FROM stream_items WHERE {OF} AND item_offset = 1", "has items that are not those from 0 to 3"),
    (change_items("item_offset = 9", "item_offset = 3"), "has items that are not those from 0 to 3"),
    (f"UPDATE streams SET next_offset = 3 WHERE {OF}", "has items that are not those from 0 to 2"),
    (f"UPDATE streams SET bytes = 1 WHERE {OF}", "counts 1 bytes, which is not the size of its items"),
    (f"UPDATE streams SET version = 0 WHERE {OF}", "was never written to"),
    (f"DELETE FROM streams WHERE {OF}", "has items of stream 'both', which has no row"),
    ("UPDATE streams SET first_run_id = 'x'", "is of no chain"),
    (change_items("attempt = 9", "item_offset = 1"), "behind one of a later attempt"),
    (change_items("activity_id = NULL", "item_offset = 1"), "which neither code nor one attempt has written"),
    (change_items("seq = NULL", "item_offset = 0"), "which neither code nor one attempt has written"),
    (
        change_items("seq = NULL, activity_id = 1, attempt = 1", "item_offset = 0"),
        "and the item is not there",
    ),
    (
        change_items(
            f"seq = (SELECT seq FROM stream_items WHERE {OF} AND item_offset = 0)", "item_offset = 3"
        ),
        "twice, at",
    ),
    (change_items("seq = 1", "item_offset = 3"), "which no event records"),
    (
        f"UPDATE stream_items SET name = 'other', item_offset = 1 WHERE {OF} AND item_offset = 3",
        "in another stream",
    ),
]
