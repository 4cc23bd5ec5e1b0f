"""Processes: shell commands and scripts, which a policy allows and a supervisor ends."""
