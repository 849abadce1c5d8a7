"""``python -m mmbloom`` is the command ``mmbloom``."""

import sys

from mmbloom.cli import main

if __name__ == "__main__":
    sys.exit(main())
