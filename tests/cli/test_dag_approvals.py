"""`outlast dag approve`: the first decision counts, and who comes later is told."""

from __future__ import annotations

import threading
from getpass import getuser

import pytest
from tests.cli.conftest import Command
from tests.worker_thread import worker_in_a_thread

from outlast import activity
from outlast.blocking import Client
from outlast_dag import Decision, approval, dag, step

asked = threading.Event()


@activity.defn(start_to_close_timeout=60)
def ask() -> None:
    # It begins in the workflow task in which the approval does.
    asked.set()


@dag(timeout=600)
def release() -> Decision:
    step(ask)()
    return approval("review", timeout=500)


@pytest.mark.parametrize("rejected", [False, True])
def test_an_approval_is_decided_once(outlast: Command, url: str, rejected: bool) -> None:
    with (
        worker_in_a_thread(url, workflows=[release], activities=[ask]),
        Client.connect(url) as client,
    ):
        asked.clear()
        handle = client.start(release, id="release-1")
        assert asked.wait(60)
        done = outlast("dag", "approve", "release-1", "reviews")
        assert done.code == 1
        assert "reviews does not wait for a decision" in done.err
        for node in ("reviews", "review"):
            kept = outlast("dag", "approve", "release-1", node, "--id", "early")
            assert kept.code == 1
            assert "stays with --id early, so decide with another one" in kept.err
        options = ["--reject"] if rejected else ["--by", "ada", "--comment", "go", "--id", "mine"]
        done = outlast("dag", "approve", "release-1", "review", *options)
        assert done.code == 0, done.err
        assert done.out == f"review of release-1 is {'rejected' if rejected else 'approved'}\n"
        expected = Decision(False, None, getuser()) if rejected else Decision(True, "go", "ada")
        assert handle.result() == expected
        if not rejected:
            again = outlast("dag", "approve", "release-1", "review", "--json", *options)
            assert again.json == {
                "workflow_id": "release-1", "node": "review", "approved": True, "comment": "go", "by": "ada",
            }  # fmt: skip
        done = outlast("dag", "approve", "release-1", "review")
        assert done.code == 1
        assert "has ended already" in done.err
