"""Real factors as 15-bit scales and shifts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.sdp.fixed_point import addition, conversion_for, fixed_point


@given(st.floats(2.0**-16, 32767.0))
def test_the_nearest_scale_is_within_half_a_step_of_fifteen_bits(factor):
    fixed = fixed_point(factor)
    assert 0 < fixed.scale <= 0x7FFF and 0 <= fixed.shift <= 31
    assert abs(fixed.value - factor) <= factor * 2.0**-15


@given(st.integers(-20, 14))
def test_powers_of_two_are_exact(exponent):
    assert fixed_point(2.0**exponent).value == 2.0**exponent


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan, 32768.0, 2.0**-40])
def test_factors_out_of_reach(factor):
    with pytest.raises(ValueError, match="allowed"):
        fixed_point(factor)


def test_the_vendors_worked_factor():
    convert = conversion_for(0x7AD3 / 2**21, -104)
    assert (convert.scale, convert.shift, convert.offset) == (0x7AD3, 21, -104)


@given(a=st.floats(1e-3, 1e3), b=st.floats(1e-3, 1e3), shift=st.sampled_from([0, 1]))
def test_an_addition_scales_both_operands(a, b, shift):
    found = addition(a, b, a_shift=shift)
    out = found.convert.scale / 2.0**found.convert.shift
    # Below a quarter the last shift ends at 31: an eighth of a code at the end of int16.
    slack = max(max(a, b) * 1e-4, 2.0**-18)
    assert math.isclose(found.a_scale / 2.0**found.a_shift * out, a, abs_tol=slack)
    assert math.isclose(found.b_scale / 2.0**found.b_shift * out, b, abs_tol=slack)
    assert max(found.a_scale, found.b_scale) <= 0x7FFF


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan])
def test_an_addition_needs_positive_factors(factor):
    with pytest.raises(ValueError, match="positive"):
        addition(1.0, factor)
