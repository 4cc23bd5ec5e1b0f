"""Documents of the Serverless Workflow DSL 1.x (the Open Workflow Specification): checked, compiled to plans, and run.

It needs the extra ``serverless``.
"""

from importlib.util import find_spec

if find_spec("jsonschema_rs") is None or find_spec("ruamel") is None or find_spec("semver") is None:
    raise ModuleNotFoundError(
        "documents need the extra 'serverless': in a clone, pip install '.[serverless]'", name="ruamel.yaml"
    )

from outlast_serverless.calls.asyncapi.channel import (
    ChannelAdapter,
    ChannelError,
    ChannelTarget,
    InboundMessage,
    OutboundMessage,
)
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.documents.document import Document
from outlast_serverless.documents.versions import latest
from outlast_serverless.jq import JqChecker
from outlast_serverless.lifecycle.wanted import LifecycleEvents
from outlast_serverless.picture.mermaid import graph
from outlast_serverless.plan.model import Plan
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.rules.jq_text import Checker
from outlast_serverless.runtime.run import DocumentRun, DocumentState, OpenTask
from outlast_serverless.runtime.runtime import Runtime
from outlast_serverless.schedules.scheduler import DocumentSchedule
from outlast_serverless.secrets import Secrets, SecretSource
from outlast_serverless.tracing.steps import TaskStep
from outlast_serverless.tracing.tracer import TracePage
from outlast_workflow.errors import InvalidDocumentError
from outlast_workflow.errors.options import DocumentProblem

__all__ = [
    "ChannelAdapter",
    "ChannelError",
    "ChannelTarget",
    "Checker",
    "Document",
    "DocumentProblem",
    "DocumentRun",
    "DocumentSchedule",
    "DocumentState",
    "HttpPolicy",
    "InboundMessage",
    "InvalidDocumentError",
    "JqChecker",
    "LifecycleEvents",
    "OpenTask",
    "OutboundMessage",
    "Plan",
    "ProcessPolicy",
    "Runtime",
    "SecretSource",
    "Secrets",
    "TaskStep",
    "TracePage",
    "graph",
    "latest",
]
