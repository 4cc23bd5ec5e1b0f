"""``python -m benchmarks.watchdog``."""

import sys

from benchmarks.watchdog.command import main

sys.exit(main())
