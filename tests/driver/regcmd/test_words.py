"""Words, fetch amounts and trailers against the published values."""

import numpy as np
import pytest

from orkbench_tui.driver.regcmd.registers import Block, Enable
from orkbench_tui.driver.regcmd.words import amount, decode, encode, link, trailer


@pytest.mark.parametrize(
    ("body", "expected"),
    [(108, 0x37), (126, 0x40), (69, 36), (104, 53), (17, 10), (13, 8), (12, 7), (25, 14), (26, 14)],
)
def test_fetch_amounts_of_captured_programs(body, expected):
    assert amount(body) == expected


def test_encode_and_decode_are_inverse():
    word = encode(Block.DPU, 0x4010, 0x80000000)
    assert word == 0x1001_8000_0000_4010
    assert decode(word) == (Block.DPU, 0x4010, 0x80000000)
    assert encode(Block.CNA, 0x1080, -3) == encode(Block.CNA, 0x1080, 0xFFFFFFFD)


def test_encode_refuses_more_than_32_bits():
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        encode(Block.CNA, 0x1070, 1 << 32)


def test_the_last_trailer_ends_the_run():
    assert trailer(Enable.MATMUL) == [0, 0x0101_0000_0000_0014, 0x0041_0000_0000_0000, 0x0081_0000_000D_0008]


def test_links_lead_to_the_next_program():
    bodies = [np.zeros(108, dtype=np.uint64), np.zeros(26, dtype=np.uint64)]
    first, last = link(bodies, [Enable.MATMUL, Enable.SDP], [0xFFF00000, 0xFFF00380])
    assert len(first) == 112 and len(last) == 30
    assert first[108] == encode(Block.PC, 0x10, 0xFFF00380)
    assert first[109] == encode(Block.PC, 0x14, 14)
    assert first[111] == encode(Block.ENABLE, 8, 0x0D)
    assert last[26] == 0 and last[29] == encode(Block.ENABLE, 8, 0x18)


def test_a_program_must_start_on_16_bytes_and_have_an_even_body():
    with pytest.raises(ValueError, match="16-byte boundary"):
        trailer(Enable.MATMUL, 0x1008, 108)
    with pytest.raises(ValueError, match="odd body"):
        link([np.zeros(3, dtype=np.uint64)], [Enable.MATMUL], [0])
