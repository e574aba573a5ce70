"""The texts that come with the program are the ones the figures were made on."""

from __future__ import annotations

import hashlib

from orkbench_tui.runner.texts import calibration_text, perplexity_text


def test_both_texts_are_unchanged_and_share_no_paragraph() -> None:
    measured, known = perplexity_text(), calibration_text()
    assert hashlib.sha256(measured.encode()).hexdigest().startswith("2da8ce1ebf8386c5")
    assert hashlib.sha256(known.encode()).hexdigest().startswith("7e8958d7640d3fb8")
    assert not set(measured.strip().split("\n\n")) & set(known.strip().split("\n\n"))
