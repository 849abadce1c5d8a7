"""Filters as users hold them: a handle on one opened file, which can change to the next one.

``filter`` has what every filter can do, ``changeable`` adds what writers can do, and one file for
each kind adds the rest. What differs between kinds is asked of ``mmbloom.kinds``.
"""
