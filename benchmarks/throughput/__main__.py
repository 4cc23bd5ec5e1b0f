"""``python -m benchmarks.throughput``."""

import sys

from benchmarks.throughput.command import main

sys.exit(main())
