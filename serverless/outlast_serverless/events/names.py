"""What the interpreter, the bus and the runtime call the same."""

from __future__ import annotations

from typing import Final

EVENT: Final = "serverless.event"
"""The signal that brings an event to a run."""
PUBLISH: Final = "serverless.publish"
"""The local activity that publishes what a task emits."""
SUBSCRIBE: Final = "serverless.subscribe"
"""The local activity that opens the subscriptions of a listen task, or narrows them."""
UNSUBSCRIBE: Final = "serverless.unsubscribe"
"""The local activity that closes them."""
