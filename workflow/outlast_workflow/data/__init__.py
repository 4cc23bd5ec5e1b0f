"""User values to payloads and back: converter, signatures, failures, headers."""
