"""Formulas: from a number of keys and a false-positive rate to bits, probes, slots, and back."""
