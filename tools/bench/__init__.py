"""Benchmarks of mmbloom: claims with their evidence. README.md describes each.

Run one with `python tools/bench compare`; `--help` lists them. Each prints Markdown tables, and
with --save replaces its record in tools/evidence/. Every table ends with the line "Where mmbloom
loses", computed from its rows.
"""
