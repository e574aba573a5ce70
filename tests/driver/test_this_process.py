"""What a process says of itself holds no text of the user."""

import pytest

from orkbench_tui.driver.this_process import this_command


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/usr/bin/ork", "run", "complete", "my secret", "--json"], "ork run complete"),
        (["/usr/bin/ork", "run", "complete", "hello"], "ork run complete"),
        (["/x/orkbench_tui/cli/main.py", "demo"], "ork demo"),
        (["ork-tui", "--target", "sim"], "ork-tui"),
        (["ork", "-x", "run"], "ork"),
    ],
)
def test_only_program_and_sub_command(words, shown):
    assert this_command(words) == shown
