"""Benchmarks of mmbloom: claims with their evidence.

Run one with `python tools/bench compare` (or `python -m tools.bench compare`); `--help` lists them.
Each command prints Markdown tables and leaves its raw figures, with a card of the machine, in
tools/bench/results/. Every table ends with the line "Where mmbloom loses", computed from its rows.
"""
