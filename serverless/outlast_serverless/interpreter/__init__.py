"""The interpreter: one deterministic workflow that runs any plan."""
