"""Settings from every source, and what a wrong one says."""

import pytest

from orkbench_tui.errors import UsageError
from orkbench_tui.settings import Settings, unknown_variables


def _load(tmp_path, text="", environment=None, **flags):
    path = tmp_path / "config.toml"
    if text:
        path.write_text(text)
    return Settings.load(config=path, environment=environment or {}, **flags)


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path):
    text = 'target = "sim"\nthreads = 1\ncontext = 512\n'
    settings = _load(tmp_path, text, {"ORK_THREADS": "2", "ORK_CONTEXT": "1024"}, context=4096, threads=None)
    assert (settings.target, settings.threads, settings.context, settings.quant) == ("sim", 2, 4096, "auto")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thread = 2\n", "did you mean threads"),
        ("threads = -1\n", "allowed: 0 to 256"),
        ('threads = "two"\n', "expected a whole number"),
        ("threads = true\n", "expected a whole number"),
        ('target = "bord"\n', "allowed: auto, board, sim"),
        ("threads = \n", "cannot read settings"),
    ],
)
def test_a_wrong_file_is_one_line_that_says_what_is_allowed(tmp_path, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        _load(tmp_path, text)
    assert "\n" not in caught.value.line().strip()


def test_a_wrong_environment_variable_is_named():
    with pytest.raises(UsageError, match="ORK_THREADS='many'"):
        Settings.load(environment={"ORK_THREADS": "many"})


def test_an_integer_is_accepted_where_a_float_is_expected(tmp_path):
    assert _load(tmp_path, "refresh_s = 2\n").refresh_s == 2.0


def test_origins_name_the_source_of_each_value(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("context = 512\nthreads = 1\n")
    origins = Settings.origins(config=path, environment={"ORK_THREADS": "2"})
    assert origins["context"] == str(path)
    assert origins["threads"] == "ORK_THREADS"
    assert origins["target"] == "default"


def test_misspelt_variables_are_found():
    assert unknown_variables({"ORK_NOPE": "1", "ORK_THREADS": "1", "ORK_DEBUG": "1", "HOME": "/"}) == [
        "ORK_NOPE"
    ]
