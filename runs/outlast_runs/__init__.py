"""What may happen to a run: start, workflow task, signal, update, query, cancel, deadline, claim, reset, import.

Each is a *change*: a command handler that is a pure function of the locked rows and ``batch.now``. The journal applies
it in a transaction, together with others. A change is a class whose name is an imperative with its object
(``StartRun``, ``SendSignal``, ``CommitWorkflowTask``), its ``__init__`` names the rows it looks at, and its ``apply``
checks them, writes, and returns what was done. It stands in the module of its noun: changes of runs here, changes of
attempts in :mod:`outlast_activities.changes`, upkeep next to what calls for it (:mod:`outlast_watchdog.enforcement`,
:mod:`outlast_store.transitions.deletion`, :mod:`outlast_store.transitions.dead_journals`). Base classes end in
``Change``.

A change that finds a deadline of its run passed enforces it, whatever the change was for
(:func:`outlast_store.transitions.run_ends.open_run`).
"""
