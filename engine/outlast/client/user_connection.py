"""What a caller may give as ``connection=``: a connection or session of SQLAlchemy, with any of its drivers."""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

LentConnection: TypeAlias = Connection | Session | scoped_session[Session]
"""What code without an event loop may give."""

UserConnection: TypeAlias = (
    LentConnection | AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]
)
"""What code on an event loop may give."""
