"""The boards that can be simulated, as data."""
