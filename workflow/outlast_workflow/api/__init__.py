"""The functions that workflow code calls: ``outlast.workflow``.

A durable call finds its run through the running event loop, and is numbered when it is made, not when it is awaited.
Type checkers see a coroutine, but the call returns a future. The same call can therefore be awaited later, gathered,
shielded, timed out or handed to a ``TaskGroup``, without a task around it.
"""
