"""The life of a file: create, publish, map, lock, flush, seal. Only this room touches files."""
