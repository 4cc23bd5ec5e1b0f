"""Who says so: the user of the system, where a command is given no name."""

from __future__ import annotations

import getpass

from outlast_workflow.errors import InvalidOptionError


def login_name() -> str:
    """Return the login name of whoever runs the command.

    Raises:
        InvalidOptionError: The system knows none.
    """
    try:
        return getpass.getuser()
    except (ImportError, OSError, KeyError):
        # A container may run under a number that no user has; Windows has no list of users.
        raise InvalidOptionError("nobody knows your login name: give --by", field="by") from None
