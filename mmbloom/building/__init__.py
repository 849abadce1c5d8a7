"""Offline build: keys, seen once and uncounted, become a sealed file as large as they need."""
