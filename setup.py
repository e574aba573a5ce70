"""Builds the native kernels; everything else is declared in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["orkbench_tui/native/build.py:ffibuilder"])
