"""Compiled kernels: tile packing and the steps of a decoder. Knows nothing of the rest of the program."""
