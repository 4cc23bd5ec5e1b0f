"""The HTTP control plane: everything that a client can do, as routes under ``/api``."""
