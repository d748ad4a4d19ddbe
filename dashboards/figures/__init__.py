"""Figures as pure functions: numbers in, places and sizes out; templates and style draw them."""
