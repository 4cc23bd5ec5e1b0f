"""How rows change state: new runs and their ends, parents and children, workers, requests, copies, deletion."""
