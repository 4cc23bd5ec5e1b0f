"""The ground, pure: events, options, errors, transitions, the deterministic loop, replay."""
