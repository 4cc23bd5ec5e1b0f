"""Activities: declaring, claiming, running, heartbeating and completing them."""
