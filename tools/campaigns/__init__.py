"""Campaigns: long runs that try to break things. README.md describes each.

Run one with `python tools/campaigns fuzz-files`; `python tools/campaigns fuzz-files --help` lists
its options. --save replaces the campaign's record in tools/evidence/.
"""
