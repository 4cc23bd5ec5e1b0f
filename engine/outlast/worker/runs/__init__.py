"""The runs of one worker: cached, given workflow tasks, claimed and released."""
