"""Starting documents: what a run is started with, and what cannot run here."""
