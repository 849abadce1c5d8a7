"""A folder of named filters, each with its generations."""
