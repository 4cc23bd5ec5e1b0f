"""The position of a subscription: it is written soon after each message, so that another worker can go on from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from outlast import Client
from outlast_workflow.errors import (
    ActivityCancelRequestedError,
    JournalClosedError,
    OutlastError,
    StoreError,
    StructuralLimitError,
)

logger = logging.getLogger("outlast.serverless")

_PAUSE_S: Final = 0.5
_BYTES_A_SECOND: Final = 256 << 10
"""What is long is written less often."""


class PositionWriter:
    """Writes the position of one subscription.

    Args:
        client: The client of the worker.
        token: The task token of the activity.
        state: Returns the position as it is now, and how many bytes that has about.
    """

    def __init__(self, client: Client, token: str, state: Callable[[], tuple[dict[str, Any], int]]) -> None:
        self._client = client
        self._token = token
        self._state = state
        self._changed = asyncio.Event()

    def change(self) -> None:
        """Note that the position is another one."""
        self._changed.set()

    async def run(self) -> None:
        """Write what changes, until the attempt is over."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            state, size = self._state()
            try:
                await self._client.heartbeat_activity(self._token, state)
            except ActivityCancelRequestedError:
                # The worker tells the handler.
                pass
            except StructuralLimitError as error:
                logger.warning("the position of a subscription is not written: %s", error)
            except JournalClosedError:
                return
            except StoreError as error:
                logger.warning("the position of a subscription was not written, and will be: %s", error)
                self._changed.set()
            except OutlastError as error:
                # The attempt is over, or another worker has it.
                logger.debug("the position of a subscription is written no longer: %s", error)
                return
            await asyncio.sleep(_PAUSE_S + size / _BYTES_A_SECOND)
