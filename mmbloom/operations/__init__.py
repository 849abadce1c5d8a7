"""Long operations on filters: merge, audit, publish, and additions and removals with a forecast."""
