"""The register table: no overlapping fields, values that must fit."""

import pytest

from orkbench_tui.driver.regcmd.registers import REGISTERS, Block, Field, by_address, fields_of, value_of


def test_fields_of_a_register_do_not_overlap():
    for register in REGISTERS.values():
        seen = 0
        for name, field in register.fields.items():
            assert field.high < 32 and field.low <= field.high, (register.name, name)
            assert not seen & field.mask, (register.name, name)
            seen |= field.mask


def test_addresses_are_unique_and_word_aligned():
    addresses = [register.address for register in REGISTERS.values()]
    assert len(set(addresses)) == len(addresses)
    assert all(address % 4 == 0 for address in addresses)


def test_the_address_page_names_the_block():
    assert REGISTERS["cna_conv_con1"].block is Block.CNA
    assert REGISTERS["core_misc_cfg"].block is Block.CORE
    assert REGISTERS["dpu_dst_base_addr"].block is Block.DPU
    assert REGISTERS["rdma_src_base_addr"].block is Block.DPU_RDMA
    assert by_address(0x4020) is REGISTERS["dpu_dst_base_addr"]
    assert by_address(0x4021) is None


def test_documented_words_decode_to_their_fields():
    assert fields_of("cna_cbuf_con0", 0x202A) == {
        "weight_reuse": 1,
        "data_reuse": 0,
        "fc_data_bank": 0,
        "weight_bank": 2,
        "data_bank": 10,
    }
    assert fields_of("dpu_data_format", 0x38000006)["out_precision"] == 1
    assert fields_of("dpu_data_format", 0x38000006)["in_precision"] == 6
    assert value_of("dpu_bs_ow_cfg", size_e_2=7, size_e_1=7, size_e_0=7, od_bypass=1) == 0x7FE
    assert (
        value_of("dpu_ew_cfg", relu_bypass=1, op_cvt_bypass=1, lut_bypass=1, op_bypass=1, bypass=1) == 0x383
    )


def test_a_value_outside_its_field_is_refused_with_the_names():
    with pytest.raises(ValueError, match=r"cna_weight_size2\.kernels: 16384 does not fit 14 bits"):
        value_of("cna_weight_size2", kernels=1 << 14)
    with pytest.raises(ValueError, match="no field widht"):
        value_of("cna_weight_size2", widht=1)


def test_signed_fields():
    field = Field(27, 0)
    assert field.signed(0x0FFFFFFD) == -3
    assert field.signed(5) == 5
