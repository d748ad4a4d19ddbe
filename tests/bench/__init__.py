"""Benchmarks: `make bench` runs them and writes docs/bench.md. Nothing here asserts a time."""
