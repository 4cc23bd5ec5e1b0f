"""The dashboard: an HTTP control plane under ``/api``, and pages for operators, on top of one client.

``control_plane(client)`` is an ASGI application. Serve it, or mount it inside your own. It needs the extra ``web``.
"""

from importlib.util import find_spec

if find_spec("fastapi") is None:
    raise ModuleNotFoundError(
        "the dashboard needs the extra 'web': in a clone, pip install '.[web]'", name="fastapi"
    )

from outlast_dashboard.app import control_plane
from outlast_dashboard.security.principals import Principal, Scope
from outlast_dashboard.security.tokens import Token, TokenFile
from outlast_dashboard.settings import WebSettings

__all__ = ["Principal", "Scope", "Token", "TokenFile", "WebSettings", "control_plane"]
