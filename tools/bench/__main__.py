"""Starts the benchmarks under either name: `python tools/bench ...` or `python -m tools.bench ...`.

Takes the repository off the import path in both cases: the mmbloom to measure is the installed one,
and the folder of the same name in the repository has no compiled kernel.
"""

import runpy
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent

if not __package__:
    # Started as a folder: nothing here can import its neighbours until the folder is a package.
    sys.path[0] = str(TOOLS)
    runpy.run_module("bench", run_name="__main__", alter_sys=True)
else:
    from .cli import main

    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != TOOLS.parent]
    if __name__ == "__main__":
        sys.exit(main())
