"""The weight pack: one self-contained file with tiles, scales, raw tensors, metadata and placement."""
