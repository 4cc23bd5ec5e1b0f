"""Holdfast: durable execution for Python. Everything a user imports comes from here."""
