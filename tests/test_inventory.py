"""The inventory table names rows and tests that exist."""

from tests.inventory import Section, load, problems


def test_every_named_row_and_test_exists():
    sections, covered = load()
    assert covered
    assert problems(sections, covered) == []


def test_a_wrong_table_is_found():
    sections = [Section(1, "One", "INV", 1, 3)]
    wrong = problems(
        sections,
        {
            "INV-009": ["tests/test_inventory.py::test_a_wrong_table_is_found"],
            "INV-001": [],
            "INV-002": ["tests/test_inventory.py::test_absent"],
            "INV-003": ["tests/absent.py::test_x"],
        },
    )
    assert [line.split(":")[0] for line in wrong] == ["INV-009", "INV-001", "INV-002", "INV-003"]


def test_sections_are_contiguous():
    sections, _ = load()
    at = {"INV": 1, "GRD": 1, "RES": 1}
    for section in sections:
        assert section.first == at[section.prefix]
        at[section.prefix] = section.last + 1
    assert at == {"INV": 365, "GRD": 61, "RES": 82}
