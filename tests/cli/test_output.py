"""Numbers for people."""

from __future__ import annotations

import pytest

from mmbloom.cli import output


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "0.98 KiB"),
        (1024, "1.00 KiB"),
        (10_234, "9.99 KiB"),
        (10_240, "10.0 KiB"),
        (102_400, "100 KiB"),
        (1024 * 999, "999 KiB"),
        (1024 * 1000, "0.98 MiB"),
        (1.7 * 2**30, "1.70 GiB"),
        (2**40, "1.00 TiB"),
        (6.266 * 2**50, "6.27 PiB"),
        (2.0**70, "1,048,576 PiB"),
    ],
)
def test_sizes_have_three_digits(num_bytes: float, text: str) -> None:
    """1.70 beside 1.67, not 1.7."""
    assert output.size_text(num_bytes) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.001, "0.001 (1 in 1,000)"),
        (1e-10, "1e-10 (1 in 10,000,000,000)"),
        (0.5, "0.5"),
        (1.0, "1"),
        (0.0, "0"),
    ],
)
def test_rates_are_a_share_and_one_in_so_many(rate: float, text: str) -> None:
    """Where the second says anything."""
    assert output.rate_text(rate) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 probes"), (1, "1 probe"), (1234.4, "1,234 probes")]
)
def test_one_is_singular(number: float, text: str) -> None:
    """As people write it."""
    assert output.count_text(number, "probe") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café 漢字", "café 漢字"),
        ("a\tb\x1b[0m\n", "a\\tb\\x1b[0m\\n"),
        ("caf\udce9", "caf\\udce9"),
        ("\u202ekcatta", "\\u202ekcatta"),
    ],
)
def test_what_is_no_visible_character_is_escaped(text: str, shown: str) -> None:
    """Control characters, bytes of odd file names, marks that turn text around."""
    assert output.printable(text) == shown


def test_a_column_is_as_high_as_its_share_and_empty_only_at_zero() -> None:
    """Four rows of eight steps; a trace is rounded up."""
    assert output.fill_chart([0, 1e-9, 0.25, 0.5, 0.75, 1]) == [
        "100 % |     █|",
        " 75 % |    ██|",
        " 50 % |   ███|",
        " 25 % | ▁████|",
    ]
