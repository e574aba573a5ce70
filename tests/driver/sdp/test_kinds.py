"""Every kind of the chain table is computed by something or says why not."""

import pytest

from orkbench_tui.driver.chain_rules import OpGroup, OpKind, op_group
from orkbench_tui.driver.sdp.kinds import NOT_HERE, OPERATIONS, kind_of
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS
from orkbench_tui.driver.sdp.table import ROWS, TABLE

WITHOUT_MATMUL = [kind for kind in OpKind if op_group(kind) is not OpGroup.MATMUL]


@pytest.mark.parametrize("kind", WITHOUT_MATMUL)
def test_a_kind_is_offered_or_explained(kind):
    assert (kind in OPERATIONS) != (kind in NOT_HERE)


def test_no_matmul_is_among_them():
    assert all(op_group(kind) is not OpGroup.MATMUL for kind in (*OPERATIONS, *NOT_HERE))


@pytest.mark.parametrize("kind", OPERATIONS)
def test_the_way_back_leads_to_the_same_kind(kind):
    op, dtype = OPERATIONS[kind]
    assert kind_of(op, dtype) is kind
    assert (op, dtype) in TABLE or op in FUNCTIONS or op == "rmsnorm"


def test_operations_the_survey_has_not_seen_have_no_kind():
    unseen = {(row.op, row.dtype) for row in ROWS if kind_of(row.op, row.dtype) is None}
    assert ("max", "int8") in unseen and ("add", "int32") in unseen
    assert ("mul", "int8") not in unseen
