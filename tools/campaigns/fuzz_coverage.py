"""Coverage-guided fuzzing of the header checks: atheris looks for pages that reach new lines.

    pip install atheris
    python tools/campaigns fuzz-coverage -max_total_time=60          # libFuzzer's options

Complements fuzz_files.py, which knows the format. This one does not; it finds its own way through
the rules. It is given valid checksums, because it would never get past the first one otherwise. A
finding is what fuzz_files.py calls one. It stops at the first and writes the page to a file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mmbloom"]):
    import mmbloom
    from mmbloom.format.header import Header

from .fuzz_files import check_bounds
from .fuzz_mutations import forge_checksums, make_bases

PAGE_BYTES = 4096


def try_page(data: bytes) -> None:
    """Read a page as it is, then with valid checksums; use the header if it is accepted."""
    for forged in (False, True):
        page = bytearray(data[:PAGE_BYTES].ljust(PAGE_BYTES, b"\0") if forged else data)
        if forged:
            forge_checksums(page)
        claimed = int.from_bytes(page[128:136], "little")
        try:
            header, status = Header.unpack(bytes(page), "page", claimed)[:2]
        except mmbloom.FormatError as exc:
            str(exc)
            continue
        check_bounds(header, claimed)
        header.pack(status)


def main() -> None:
    """Start from the header pages of valid files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "corpus"
        folder.mkdir()
        for base in make_bases(Path(name)):
            (folder / base.name).write_bytes(base.content[:PAGE_BYTES])
        atheris.Setup(
            [*sys.argv, f"-max_len={PAGE_BYTES}", "-len_control=0", str(folder)], try_page
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
