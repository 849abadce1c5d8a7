"""Run a campaign by its name: `python tools/campaigns fuzz-files --seconds 60`."""

import argparse
import importlib
import sys
from pathlib import Path

CAMPAIGNS = (
    "crash-files",
    "find-all",
    "follow",
    "fuzz-coverage",
    "fuzz-files",
    "kill-builds",
    "open-many",
    "other-machines",
    "sanitized",
    "scale",
)


def main() -> int:
    """Hand the rest of the command line to the campaign; return its exit code."""
    parser = argparse.ArgumentParser(prog="campaigns", description="Long runs that test mmbloom.")
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="see: campaigns NAME --help")
    asked = parser.parse_args()
    sys.argv = [f"campaigns {asked.campaign}", *asked.options]
    campaign = importlib.import_module(f"campaigns.{asked.campaign.replace('-', '_')}")
    return int(campaign.main() or 0)


if __name__ == "__main__":
    # In place of this folder: campaigns import each other, tools/bench, tools/make, tools/evidence.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    sys.exit(main())
