"""Offline build: keys, seen once and uncounted, become a sealed file that is exactly as large as they need."""
