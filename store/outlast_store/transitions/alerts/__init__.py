"""Alerts that are fired: their rows, their deliveries, and the signals to their workflows."""
