"""Bad lines: raised, shown or counted."""

from __future__ import annotations

import pytest

from mmbloom import ParameterError, SourceError
from mmbloom.sources.bad_lines import BadLines


def test_raise_stops_at_the_first() -> None:
    """It raises the error itself, so that its type says what to do."""
    bad = BadLines("raise")
    first = SourceError("list, line 3: an empty line")

    with pytest.raises(SourceError) as caught:
        bad.add_many([first, SourceError("list, line 4: an empty line")], 2)

    assert caught.value is first
    assert bad.num_bad == 0


def test_skip_keeps_the_first_five_messages() -> None:
    """In order, of any number of bad lines."""
    bad = BadLines("skip")

    bad.add(SourceError("line 1"))
    bad.add_many([SourceError(f"line {i}") for i in range(2, 9)], 1000)
    bad.add_many([], 0)

    assert (bad.num_bad, bad.first) == (1001, [f"line {i}" for i in range(1, 6)])


def test_count_keeps_none() -> None:
    """For lists that are known to be dirty."""
    bad = BadLines("count")

    bad.add_many([SourceError("line 1")], 7)

    assert (bad.num_bad, bad.first) == (7, [])


def test_the_count_of_an_interrupted_build_continues() -> None:
    """Lines that were counted before are not counted again."""
    bad = BadLines("skip")
    bad.restore(40, ["line 1", "line 2"])

    bad.add(SourceError("line 99"))

    assert (bad.num_bad, bad.first) == (41, ["line 1", "line 2", "line 99"])


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_source_names_the_file_of_a_bad_line(policy: str) -> None:
    """The engine sees only the text of joined files; other errors are not changed."""
    bad = BadLines(policy)  # type: ignore[arg-type]
    bad.locate_with(lambda e: SourceError(str(e).replace("joint", "b.txt")))
    bad.locate_with(lambda e: e)

    assert str(bad.located(SourceError("joint, line 1"))) == "b.txt, line 1"
    if policy == "skip":
        bad.add(SourceError("joint, line 2"))
        assert bad.first == ["b.txt, line 2"]
    else:
        with pytest.raises(SourceError, match=r"b.txt, line 2"):
            bad.add(SourceError("joint, line 2"))


def test_another_policy_is_refused() -> None:
    """The error names the parameter."""
    with pytest.raises(ParameterError, match="on_error: expected 'raise', 'skip' or 'count'"):
        BadLines("ignore")  # type: ignore[arg-type]
