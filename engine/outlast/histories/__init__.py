"""Histories as documents: export, import, deletion, reset and retention."""
