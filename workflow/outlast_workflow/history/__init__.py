"""History events, their legal order, and what a history says is open."""
