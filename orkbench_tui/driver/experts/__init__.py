"""Experts of a mixture on the NPU: correct, counted, and slower than the CPU; see the published figures."""
