"""``python -m holdfast.demo``: the same as ``holdfast demo``."""

from holdfast.demo.main import main

if __name__ == "__main__":
    main()
