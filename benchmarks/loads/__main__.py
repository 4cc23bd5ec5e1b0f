"""``python -m benchmarks.loads``."""

import sys

from benchmarks.loads.command import main

sys.exit(main())
