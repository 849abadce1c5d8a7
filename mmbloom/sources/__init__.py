"""Lists of keys: text, tables and folders of ranges, compressed or not, read block by block."""
