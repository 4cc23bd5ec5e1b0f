"""Reading workflow code for what will not replay: clocks, randomness, input and output, threads."""
