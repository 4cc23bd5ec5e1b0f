"""``python -m outlast``: the same as ``outlast``."""

from outlast.cli.main import main

if __name__ == "__main__":
    main()
