"""Formulas: from a number of keys and a rate to bits, probes and slots, and back."""
