"""``outlast effects``: the table of ``activity.once()`` in a user's own database."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command


def test_the_table_is_made_once_and_pruned(bare: Command, tmp_path: Path) -> None:
    shop = f"sqlite:///{tmp_path / 'shop.db'}"
    early = bare("effects", "prune", "--url", shop, "--older-than", "30d")
    assert early.code == 1
    assert "has no table outlast_effects: check the URL, or run `outlast effects create`" in early.err
    assert bare("effects", "create", "--url", shop, "--json").json == {"url": shop, "created": True}
    assert bare("effects", "create", "--url", shop).out.endswith("was there already\n")
    assert bare("effects", "prune", "--url", shop, "--older-than", "30d", "--json").json == {"deleted": 0}


def test_a_database_that_cannot_be_opened_says_why_in_one_sentence(bare: Command, tmp_path: Path) -> None:
    failed = bare("effects", "create", "--url", f"sqlite:///{tmp_path / 'no' / 'shop.db'}")
    assert failed.code == 4
    assert "unable to open database file; check the URL" in failed.err
    assert "because of" not in failed.err
