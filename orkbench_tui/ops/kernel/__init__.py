"""Kernels of a board: what is installed, how it boots, and installing one that can be taken back."""
