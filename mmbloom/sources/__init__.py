"""Lists of keys: text, tables and folders of range files, compressed or not."""
