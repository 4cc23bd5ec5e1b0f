"""The table of what applies an inbound event names real methods, and leaves no inbound event out."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from outlast_workflow.history.events import REGISTRY
from outlast_workflow.run.activity_calls import ActivityCalls
from outlast_workflow.run.appliers import APPLIERS
from outlast_workflow.run.child_calls import ChildCalls
from outlast_workflow.run.external_signals import ExternalCalls
from outlast_workflow.run.handler_tasks import Handling
from outlast_workflow.run.machine import WorkflowMachine

PARTS = {"calls": ActivityCalls, "children": ChildCalls, "externals": ExternalCalls, "handling": Handling}


def test_each_inbound_event_has_an_applier_and_no_other_event_has_one():
    assert set(APPLIERS) == {event for event in REGISTRY.values() if event.inbound}


@pytest.mark.parametrize("applier", APPLIERS.values(), ids=[event.type for event in APPLIERS])
def test_an_applier_is_a_method_of_a_part_of_the_machine(applier: attrgetter[Any]):
    reduced: Any = applier.__reduce__()
    (path,) = reduced[1]
    part, _, method = path.rpartition(".")
    owner = PARTS[part] if part else WorkflowMachine
    assert callable(getattr(owner, method))
    assert not part or hasattr(WorkflowMachine, part) or part in WorkflowMachine.__slots__
