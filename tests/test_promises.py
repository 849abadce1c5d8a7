"""PROMISES.md: every test that it names is collected."""

from __future__ import annotations

import re
from pathlib import Path

PROMISES = (Path(__file__).parent / "PROMISES.md").read_text(encoding="utf-8")


def test_every_test_that_promises_names_is_collected(collected: list[str]) -> None:
    """By the command that README gives; a test that is renamed is renamed there."""
    named = set(re.findall(r"`(test_\w+)`", PROMISES))
    found = {test.split("::")[1].partition("[")[0] for test in collected}

    assert len(named) > 70
    assert named - found == set()


def test_every_promise_names_a_test() -> None:
    """Rows of the first two tables, behind their headings."""
    promises = PROMISES.partition("## Campaigns")[0]
    rows = [
        line for line in promises.splitlines() if re.match(r"\| (?!---|what happens|promise)", line)
    ]

    assert len(rows) > 30
    assert [row for row in rows if "`test_" not in row] == []
