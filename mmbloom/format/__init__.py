"""The file format: what every byte of a filter file means, and when a file is refused.

FORMAT.md is normative. ``fields`` and ``kinds`` have its tables for the code. ``header`` and
``status`` pack and unpack the header page and the status slots, and check them (``rules``, and
``fuse`` for the fields of kind 2). ``metadata`` is the user's JSON object, and ``checksums`` the
table after the payload. Nothing here opens or maps a file.
"""
