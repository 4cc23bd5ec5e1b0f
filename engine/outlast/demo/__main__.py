"""``python -m outlast.demo``: the same as ``outlast demo``."""

from outlast.demo.main import main

if __name__ == "__main__":
    main()
