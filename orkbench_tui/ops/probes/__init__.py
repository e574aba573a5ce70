"""Questions to a board, each with its formula, its positive control and a verdict."""
