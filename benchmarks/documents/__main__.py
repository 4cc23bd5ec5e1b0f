"""``python -m benchmarks.documents``."""

import sys

from benchmarks.documents.command import main

sys.exit(main())
