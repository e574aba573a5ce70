"""Benchmarks whose figures carry the configuration they were taken in."""
