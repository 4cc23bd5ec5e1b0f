"""Declaring workflows and their handlers."""
