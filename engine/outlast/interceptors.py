"""Interceptors and the calls that they see: ``from outlast.interceptors import Interceptor``."""

from outlast.client.intercepted_calls import (
    CancelActivity,
    CancelWorkflow,
    CompleteActivity,
    DescribeWorkflow,
    FailActivity,
    ForkWorkflow,
    HeartbeatActivity,
    QueryWorkflow,
    ResumeWorkflow,
    SetStartDelay,
    SignalMany,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from outlast.client.interceptors import ClientInterceptor, Interceptor
from outlast.histories.fork import Forked
from outlast_activities.interceptors import ActivityInterceptor, Heartbeat, RunActivity
from outlast_workflow.primitives.enums import Keep
from outlast_workflow.run.intercepted_calls import (
    ContinueAsNewCall,
    HandleQuery,
    HandleSignal,
    HandleUpdate,
    ReceiveMessage,
    RunWorkflow,
    SignalExternal,
    StartActivity,
    StartChild,
)
from outlast_workflow.run.interceptors import WorkflowInterceptor

__all__ = [
    "ActivityInterceptor",
    "CancelActivity",
    "CancelWorkflow",
    "ClientInterceptor",
    "CompleteActivity",
    "ContinueAsNewCall",
    "DescribeWorkflow",
    "FailActivity",
    "ForkWorkflow",
    "Forked",
    "HandleQuery",
    "HandleSignal",
    "HandleUpdate",
    "Heartbeat",
    "HeartbeatActivity",
    "Interceptor",
    "Keep",
    "QueryWorkflow",
    "ReceiveMessage",
    "ResumeWorkflow",
    "RunActivity",
    "RunWorkflow",
    "SetStartDelay",
    "SignalExternal",
    "SignalMany",
    "SignalWorkflow",
    "StartActivity",
    "StartChild",
    "StartWorkflow",
    "TerminateWorkflow",
    "UpdateWorkflow",
    "WorkflowInterceptor",
]
