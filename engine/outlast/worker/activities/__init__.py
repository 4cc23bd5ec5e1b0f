"""The activities of one worker: claimed, started, their results sent on."""
