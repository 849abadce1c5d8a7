"""A few thousand mutated headers and files; the campaign fuzz-files tries millions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CAMPAIGNS = Path(__file__).parents[1] / "tools" / "campaigns"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the tool once, in a process of its own: a crash is a finding too."""
    path = tmp_path_factory.mktemp("fuzz") / "report.json"
    command = [sys.executable, str(CAMPAIGNS), "fuzz-files", "--seed", "11", "--json", str(path)]
    command += ["--headers", "2000", "--files", "400", "--seconds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert path.exists(), done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(("kind", "count"), [("headers", 2000), ("files", 400)])
def test_no_file_gives_anything_but_a_typed_error_or_the_truth(
    report: dict[str, Any], kind: str, count: int
) -> None:
    """Not another exception, not a false "no", not 50 ms, not 50 MiB, not a crash."""
    assert report[kind]["findings"] == []
    assert report[kind]["tried"] == count


@pytest.mark.parametrize(
    ("kind", "outcomes"),
    [
        ("headers", ["FormatError num_bits", "VersionError layout", "accepted page"]),
        ("files", ["TruncatedError file_bytes", "FormatError canaries", "verified"]),
    ],
)
def test_the_mutations_reach_every_part_of_a_reader(
    report: dict[str, Any], kind: str, outcomes: list[str]
) -> None:
    """Refused early, refused late, and accepted: else nothing but the first check is tested."""
    found = report[kind]["outcomes"]

    assert set(outcomes) <= set(found)
    assert len(found) > 30
