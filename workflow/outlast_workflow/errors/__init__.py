"""Every error that Outlast raises, under one root.

::

    OutlastError
    ├── InvalidOptionError (ValueError)        an option, name or id that cannot be used
    ├── InvalidUrlError (ValueError)           a database URL that cannot be used
    ├── DagValidationError (ValueError)        a DAG that cannot be built; ``problems`` are all that is wrong with it
    ├── InvalidDocumentError (ValueError)      a document cannot be used; ``problems`` are all that is wrong with it
    ├── WorkflowAlreadyStartedError            the workflow id is taken
    ├── WorkflowNotFoundError                  no workflow has this id
    │   ├── RunNotFoundError                   … or not this run
    │   └── StartNotCommittedError             … yet: the transaction that starts it has not committed
    ├── OutboxRefusedError                     a start in a user's transaction was refused after its commit
    ├── OutboxRowNotFoundError                 the outbox has no such row any more
    ├── AlertNotFoundError                     no alert of this id was fired
    ├── AlertAcknowledgedError                 somebody else has acknowledged the alert already
    ├── WorkflowClosedError                    the workflow has already ended
    ├── WorkflowAlreadyBegunError              the workflow's start cannot be moved any more
    ├── ScheduleNotFoundError                  no schedule has this id
    ├── ScheduleExistsError                    the schedule id is taken
    ├── DamagedScheduleError                   a stored value of a schedule cannot be read
    ├── UnknownWorkflowTypeError               no such workflow is registered on this worker
    ├── RefusedError                           a change found the run or activity in another state than it expected
    ├── ResetRefusedError                      the workflow cannot be reset, resumed or forked, or not at that point
    │   └── WorkflowNotResumableError          … because it is open, or has completed
    ├── DeleteRefusedError                     the workflow cannot be deleted now
    ├── DeferRefusedError                      the activity cannot be deferred: nothing bounds it, or it is local
    ├── ActivityNotFoundError                  the run has no activity of this id
    ├── AttemptNotRunningError                 the attempt that a task token or ids name is not running
    ├── ActivityCancelRequestedError           the activity that was heartbeaten from outside is to be cancelled
    ├── StreamClosedError                      nothing can be written to the stream any more
    ├── StreamTimeoutError (TimeoutError)      the stream had no next item within the reader's timeout
    ├── QueueNotFoundError                     no queue of this name is defined
    ├── QueueExistsError                       a queue of this name is defined already
    ├── QueueInUseError                        the queue cannot be deleted: something waits in it or holds a slot
    ├── BlockedLoopError (RuntimeError)        the blocking client was called on an event loop
    ├── NotInActivityError (RuntimeError)      a function for activity code was called elsewhere
    │   └── NotTransactionalError              … or in an activity that has no transaction
    ├── TransactionRefusedError                a transactional activity cannot do this
    ├── TransactionEndedError                  the code of a transactional activity ended its transaction itself
    ├── TransactionTooLongError (TimeoutError) a transaction kept SQLite's write lock for too long
    ├── EffectsTableMissingError               the database given to activity.once() has no table of effects
    ├── InvalidHistoryError (ValueError)       the input is not an exported history, or not a sound one
    ├── DamagedHistoryError                    a stored value of a run cannot be read
    ├── HistoryExistsError                     the database already has a workflow or run to be imported
    ├── StoreError                             the database
    │   ├── StoreUnreachableError              … does not answer
    │   ├── StoreReadOnlyError                 … is read-only
    │   ├── StoreReplacedError                 … is a file that was deleted, moved or replaced while it was open
    │   ├── OutcomeUnknownError                … was unreachable for too long to tell whether a change was committed
    │   ├── SchemaMissingError                 … has no tables yet
    │   ├── SchemaTooOldError                  … has tables of an earlier version
    │   ├── SchemaTooNewError                  … has tables of a later version
    │   ├── ForkedConnectionError              … was connected to before a fork
    │   └── JournalClosedError                 … is no longer written by this process
    ├── UnstorableValueError (ValueError)      a value that the database cannot hold, now or later
    ├── DagFailedError                         nodes of a DAG failed, and so did the DAG
    │   └── DagTimeoutError                    … was stopped in time to compensate before its deadline
    ├── DagDataError                           … because a value that a node needs is not there
    ├── DagApprovalError                       an approval was decided before, or nobody waits for it
    ├── UnsupportedTaskError (ValueError)      a document has tasks that this runtime cannot run
    ├── DocumentConflictError                  a version of a document is registered with another content
    ├── DocumentNotFoundError                  no such document, or version of it, is registered
    ├── UntraceableRunError                    the history of a run of a document cannot be replayed here
    ├── FaultedError                           a run of a document faulted; ``error`` is the error of the DSL
    │   └── FaultedTimeoutError (TimeoutError) … because a timeout of the document passed
    ├── WorkflowTaskError                      fails the workflow task, which is retried; never the run
    │   ├── NonDeterminismError                the code no longer makes the calls that history records
    │   ├── PayloadDecodeError                 a value cannot be decoded as its type hint
    │   │   └── PayloadCodecError              … because its codec is not configured, or failed
    │   ├── PayloadEncodeError                 a value cannot be encoded as JSON
    │   ├── DurableCallError                   a durable call that cannot be made as written
    │   │   └── ReadOnlyContextError           a query, validator or predicate tried to change the run
    │   ├── ExpressionBudgetError              an expression of a document took too long, or too much memory
    │   ├── MissingCodeError                   history needs code that is not registered on this worker
    │   ├── RestrictedWorkflowAccessError      workflow code attempted I/O (:mod:`~outlast_workflow.run.guard`)
    │   └── WorkflowTaskBlockedError           workflow code blocked its worker
    ├── StructuralLimitError                   something exceeded its limit
    ├── OwnersDiedError                        the workers that held a run died too often in a row, which ended it
    ├── FailureError                           what workflow code sees of failures elsewhere
    │   ├── ApplicationError                   user code failed; raise it yourself to add details
    │   ├── ActivityError                      an activity ended without a result; ``__cause__`` says why
    │   │   └── ActivityTimeoutError (TimeoutError)    … because one of its four deadlines passed
    │   └── ChildWorkflowError                 a child workflow ended without a result; ``__cause__`` says why
    ├── RequestError                           a signal, a query or an update failed
    │   ├── UnknownHandlerError                the workflow has no handler of that name
    │   ├── QueryFailedError                   the query raised; ``__cause__`` says what
    │   ├── UpdateRejectedError                the validator rejected the update; ``__cause__`` says why
    │   ├── UpdateFailedError                  the update was accepted, but failed; ``__cause__`` says why
    │   ├── NoWorkerError                      no live worker serves the workflow's task queue and type
    │   └── RequestTimeoutError (TimeoutError) the caller's timeout passed without an answer
    ├── StillRunningError (TimeoutError)       the workflow did not end within the time that the caller waits
    └── WorkflowResultError                    what ``handle.result()`` raises
        ├── WorkflowFailedError                the run failed; ``__cause__`` is the failure
        ├── WorkflowTimeoutError (TimeoutError)    the execution or the run timeout passed
        ├── WorkflowCancelledError             the workflow ended as cancelled
        ├── WorkflowTerminatedError            the workflow was terminated
        └── WorkflowContinuedAsNewError        another run follows, and the caller does not follow runs

    ContinueAsNew (BaseException)              control flow, not an error

An error's data are attributes, named in ``facts``. They travel with the error through history and between processes.
A message says what to do next and never holds a payload. Nobody needs to parse one.
"""

from outlast_workflow.errors.activity import ActivityError, ActivityTimeoutError
from outlast_workflow.errors.child import ChildWorkflowError
from outlast_workflow.errors.context import BlockedLoopError, NotInActivityError
from outlast_workflow.errors.control_flow import ContinueAsNew
from outlast_workflow.errors.documents import (
    DagApprovalError,
    DagDataError,
    DagFailedError,
    DagTimeoutError,
    DagValidationError,
    DocumentConflictError,
    DocumentNotFoundError,
    ExpressionBudgetError,
    FaultedError,
    FaultedTimeoutError,
    UnsupportedTaskError,
    UntraceableRunError,
)
from outlast_workflow.errors.failure import ApplicationError, FailureError
from outlast_workflow.errors.history import DamagedHistoryError, HistoryExistsError, InvalidHistoryError
from outlast_workflow.errors.limits import OwnersDiedError, StructuralLimitError
from outlast_workflow.errors.options import InvalidDocumentError, InvalidOptionError, InvalidUrlError
from outlast_workflow.errors.payloads import PayloadCodecError, PayloadDecodeError, PayloadEncodeError
from outlast_workflow.errors.queues import QueueExistsError, QueueInUseError, QueueNotFoundError
from outlast_workflow.errors.refusals import (
    ActivityCancelRequestedError,
    ActivityNotFoundError,
    AlertAcknowledgedError,
    AlertNotFoundError,
    AttemptNotRunningError,
    DeferRefusedError,
    DeleteRefusedError,
    OutboxRefusedError,
    OutboxRowNotFoundError,
    RefusedError,
    ResetRefusedError,
    WorkflowNotResumableError,
)
from outlast_workflow.errors.request import (
    NoWorkerError,
    QueryFailedError,
    RequestError,
    RequestTimeoutError,
    UnknownHandlerError,
    UpdateFailedError,
    UpdateRejectedError,
)
from outlast_workflow.errors.result import (
    StillRunningError,
    WorkflowCancelledError,
    WorkflowContinuedAsNewError,
    WorkflowFailedError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.root import REGISTRY, OutlastError
from outlast_workflow.errors.store import (
    ForkedConnectionError,
    JournalClosedError,
    OutcomeUnknownError,
    SchemaMissingError,
    SchemaTooNewError,
    SchemaTooOldError,
    StoreError,
    StoreReadOnlyError,
    StoreReplacedError,
    StoreUnreachableError,
    UnstorableValueError,
)
from outlast_workflow.errors.streams import StreamClosedError, StreamTimeoutError
from outlast_workflow.errors.task import (
    DurableCallError,
    MissingCodeError,
    NonDeterminismError,
    ReadOnlyContextError,
    RestrictedWorkflowAccessError,
    WorkflowTaskBlockedError,
    WorkflowTaskError,
)
from outlast_workflow.errors.transactions import (
    EffectsTableMissingError,
    NotTransactionalError,
    TransactionEndedError,
    TransactionRefusedError,
    TransactionTooLongError,
)
from outlast_workflow.errors.workflows import (
    DamagedScheduleError,
    RunNotFoundError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    StartNotCommittedError,
    UnknownWorkflowTypeError,
    WorkflowAlreadyBegunError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)

__all__ = [
    "REGISTRY",
    "ActivityCancelRequestedError",
    "ActivityError",
    "ActivityNotFoundError",
    "ActivityTimeoutError",
    "AlertAcknowledgedError",
    "AlertNotFoundError",
    "ApplicationError",
    "AttemptNotRunningError",
    "BlockedLoopError",
    "ChildWorkflowError",
    "ContinueAsNew",
    "DagApprovalError",
    "DagDataError",
    "DagFailedError",
    "DagTimeoutError",
    "DagValidationError",
    "DamagedHistoryError",
    "DamagedScheduleError",
    "DeferRefusedError",
    "DeleteRefusedError",
    "DocumentConflictError",
    "DocumentNotFoundError",
    "DurableCallError",
    "EffectsTableMissingError",
    "ExpressionBudgetError",
    "FailureError",
    "FaultedError",
    "FaultedTimeoutError",
    "ForkedConnectionError",
    "HistoryExistsError",
    "InvalidDocumentError",
    "InvalidHistoryError",
    "InvalidOptionError",
    "InvalidUrlError",
    "JournalClosedError",
    "MissingCodeError",
    "NoWorkerError",
    "NonDeterminismError",
    "NotInActivityError",
    "NotTransactionalError",
    "OutboxRefusedError",
    "OutboxRowNotFoundError",
    "OutcomeUnknownError",
    "OutlastError",
    "OwnersDiedError",
    "PayloadCodecError",
    "PayloadDecodeError",
    "PayloadEncodeError",
    "QueryFailedError",
    "QueueExistsError",
    "QueueInUseError",
    "QueueNotFoundError",
    "ReadOnlyContextError",
    "RefusedError",
    "RequestError",
    "RequestTimeoutError",
    "ResetRefusedError",
    "RestrictedWorkflowAccessError",
    "RunNotFoundError",
    "ScheduleExistsError",
    "ScheduleNotFoundError",
    "SchemaMissingError",
    "SchemaTooNewError",
    "SchemaTooOldError",
    "StartNotCommittedError",
    "StillRunningError",
    "StoreError",
    "StoreReadOnlyError",
    "StoreReplacedError",
    "StoreUnreachableError",
    "StreamClosedError",
    "StreamTimeoutError",
    "StructuralLimitError",
    "TransactionEndedError",
    "TransactionRefusedError",
    "TransactionTooLongError",
    "UnknownHandlerError",
    "UnknownWorkflowTypeError",
    "UnstorableValueError",
    "UnsupportedTaskError",
    "UntraceableRunError",
    "UpdateFailedError",
    "UpdateRejectedError",
    "WorkflowAlreadyBegunError",
    "WorkflowAlreadyStartedError",
    "WorkflowCancelledError",
    "WorkflowClosedError",
    "WorkflowContinuedAsNewError",
    "WorkflowFailedError",
    "WorkflowNotFoundError",
    "WorkflowNotResumableError",
    "WorkflowResultError",
    "WorkflowTaskBlockedError",
    "WorkflowTaskError",
    "WorkflowTerminatedError",
    "WorkflowTimeoutError",
]
