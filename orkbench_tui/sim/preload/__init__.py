"""The library that lets programs others wrote use the simulated board as if it were this machine's."""
