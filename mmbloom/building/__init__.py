"""Building: keys, read once and not counted before, become a filter file of the right size."""
