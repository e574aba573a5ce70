"""The kinds of figure there are, and the check that none goes without its kind."""

from __future__ import annotations

__all__ = ["CLOCK", "JOB_TIME", "LABELS", "STANDINGS", "checked_label", "checked_standing"]

LABELS: dict[str, str] = {
    "measured": "taken on a board by this program",
    "host": "taken with this machine's clock",
    "predicted": "the timing model's, nobody's measurement",
    "published": "its authors', on their board",
}

JOB_TIME: dict[str, str] = {"board": "measured", "sim": "predicted"}
"""Kind of the times a kernel reports for its jobs, by what the kernel belongs to; none where no NPU takes part."""

CLOCK: dict[str, str] = {"board": "measured", "sim": "host", "host": "host"}
"""Kind of a time of this machine's clock, by what was timed."""

STANDINGS: dict[str, str] = {
    "published": "stands so in its source",
    "derived": "follows from published figures by the arithmetic given with it",
    "assumed": "nobody's measurement",
}


def checked_label(label: str) -> str:
    """The label; ValueError for a figure without one, or with one nobody knows."""
    if label not in LABELS:
        raise ValueError(f"a figure labelled {label!r}; allowed: {', '.join(LABELS)}")
    return label


def checked_standing(standing: str) -> str:
    """What a constant is worth; ValueError where that is not said."""
    if standing not in STANDINGS:
        raise ValueError(f"a constant that stands as {standing!r}; allowed: {', '.join(STANDINGS)}")
    return standing
