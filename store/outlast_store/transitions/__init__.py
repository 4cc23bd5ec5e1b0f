"""How rows move from one state to the next: runs, parents and children, requests, deletion."""
