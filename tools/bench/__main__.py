"""Run a benchmark by its name: `python tools/bench open`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # In place of this folder, whose modules import each other as a package.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from bench.cli import main

    sys.exit(main())
