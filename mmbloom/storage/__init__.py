"""The life of a file: create, publish, map, lock, flush, seal. Only this room touches files.

``publish`` makes new files, ``mapped`` opens finished ones for reading, ``writable`` is the one
writer of a file that still grows, ``memory`` has payloads without a file. Below them: ``paths``
(the door), ``temporary`` (files that are not published yet), ``space`` (reserving and writing
bytes), ``locks`` and ``claim`` (who may write), ``slots`` (status slots on disk), ``advice`` (what
the kernel is told about a map). What the bytes mean is the business of ``mmbloom.format``.
"""
