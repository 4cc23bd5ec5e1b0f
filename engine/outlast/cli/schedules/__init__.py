"""The commands about schedules."""
