"""What fires when: what lies ahead of all workflows, from the indexes that the watchdog finds it by."""
