"""Documents by version 1 of the rulings: each kind of task, deadlines, retries, forks, events, messages, schedules,
functions, extensions, subflows, suspensions, and runs that continue as new with what is under way.

``make_documents.py`` has recorded them, of the documents in ``programs_documents.yaml``.
"""

from __future__ import annotations

import atexit
from typing import Any

from outlast import workflow
from outlast_serverless.interpreter.workflow import workflow_of
from outlast_serverless.jq import Evaluator
from outlast_serverless.schedules.workflow import schedule_workflow_of


@workflow.defn
async def charge(order: dict[str, Any]) -> dict[str, Any]:
    """A workflow in Python that a document runs."""
    await workflow.sleep(1)
    return {"charged": order["amount"]}


EVALUATOR = Evaluator()
atexit.register(EVALUATOR.close)
WORKFLOWS = [workflow_of(EVALUATOR, {}), schedule_workflow_of(EVALUATOR, {}), charge]
