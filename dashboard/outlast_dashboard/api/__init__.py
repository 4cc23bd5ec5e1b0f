"""The HTTP control plane: what a client can do, as routes under ``/api``."""
