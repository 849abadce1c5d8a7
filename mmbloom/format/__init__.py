"""The header room: what every byte of a filter file means, and when a file is refused.

FORMAT.md is normative. ``fields`` has the same tables for the code; ``header`` and ``status`` pack
and unpack them by the rules in ``rules``; ``metadata`` is the user's JSON object, ``checksums`` the
table behind the payload. Nothing here opens or maps a file.
"""
