"""Kinds of filters, one file a kind; no kind imports another.

``sizing`` and ``estimates`` have the formulas, ``handle`` and ``facts`` what every kind can do. The
set of kinds is closed: their numbers are in FORMAT.md.
"""
