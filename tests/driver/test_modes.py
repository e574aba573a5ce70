"""Every cell of the transition table against the published matrices, typed in by hand."""

from itertools import pairwise

import pytest

from orkbench_tui.driver.modes import (
    POLICIES,
    RESET_MS,
    ChainKind,
    Clear,
    Mode,
    ModeKnobs,
    ModeState,
    Profile,
    transition,
    transition_table,
)

DEFAULT_KNOBS = ModeKnobs()
SOURCES = ("cold", "F16", "I8", "I8_CHAIN", "I4", "I4_CHAIN", "I4_STREAM")

DEFAULT = """
MC_MM       I8         R+Wp+Zp  K        .        K        R+Wp+Zp  R+Wp+Zp  R+Wp+Zp
MC_MM       F16        Wp+Zp    .        K        K        Wp+Zp    Wp+Zp    Wp+Zp
SC_MM       I8         R+Ws+Zs  K        .        K        R+Ws+Zs  R+Ws+Zs  R+Ws+Zs
SC_MM       F16        Ws+Zs    .        K        K        Ws+Zs    Ws+Zs    Ws+Zs
CHAIN_NT    I8_CHAIN   R+Ws+Zs  K        K        .        R+Ws+Zs  R+Ws+Zs  R+Ws+Zs
STREAM_I8   I8         R+Wb     K        .        K        R+Wb     R+Wb     R+Wb
STREAM_F16  F16        R+Wb     .        K        K        R+Wb     R+Wb     R+Wb
I4_MC       I4         R+Wp+Zp  R+Wp+Zp  R+Wp+Zp  R+Wp+Zp  .        R+Wp+Zp  R+Wp+Zp
I4_MWARM    I4         R+Wp     R+Wp     R+Wp     R+Wp     .        R+Wp     R+Wp
I4_INCR     I4         R        R        R        R        .        R        R
I4CHAIN     I4_CHAIN   R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  .        R+Ws+Zs
I4_STREAM   I4_STREAM  R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     .
SDP         F16        K        .        K        K        K        K        K
SDP         I8         K        K        .        K        K        K        K
"""

NOTHRASH = """
MC_MM       I8         R+Wp     K        .        K        K        R+Wp     R+Wp
MC_MM       F16        Wp       .        K        K        Wp       Wp       Wp
SC_MM       I8         R+Ws     K        .        K        R+Ws     R+Ws     R+Ws
SC_MM       F16        Ws       .        K        K        Ws       Ws       Ws
CHAIN_NT    I8_CHAIN   R+Ws+Zs  K        K        .        K        R+Ws+Zs  R+Ws+Zs
STREAM_I8   I8         R+Wb     K        .        K        K        R+Wb     R+Wb
STREAM_F16  F16        R+Wb     .        K        K        R+Wb     R+Wb     R+Wb
I4_MC       I4         R+Wp     R+Wp     K        K        .        R+Wp     R+Wp
I4_MWARM    I4         R+Wp     R+Wp     K        K        .        R+Wp     R+Wp
I4_INCR     I4         R        R        K        K        .        R        R
I4CHAIN     I4_CHAIN   R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  .        R+Ws+Zs
I4_STREAM   I4_STREAM  R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     .
SDP         F16        K        .        K        K        K        K        K
SDP         I8         K        K        .        K        K        K        K
"""

F16_COLD = """
MC_MM       I8         R+Wp+Zp  R+Wp+Zp  .        Wp+Zp    R+Wp+Zp  R+Wp+Zp  R+Wp+Zp
MC_MM       F16        Wp+Zp    .        Wp+Zp    Wp+Zp    Wp+Zp    Wp+Zp    Wp+Zp
SC_MM       I8         R+Ws+Zs  R+Ws+Zs  .        Ws+Zs    R+Ws+Zs  R+Ws+Zs  R+Ws+Zs
SC_MM       F16        Ws+Zs    .        Ws+Zs    Ws+Zs    Ws+Zs    Ws+Zs    Ws+Zs
CHAIN_NT    I8_CHAIN   R+Ws+Zs  R+Ws+Zs  Ws+Zs    .        R+Ws+Zs  R+Ws+Zs  R+Ws+Zs
STREAM_I8   I8         R+Wb     R+Wb     .        K        R+Wb     R+Wb     R+Wb
STREAM_F16  F16        R+Wb     .        R+Wb     R+Wb     R+Wb     R+Wb     R+Wb
I4_MC       I4         R+Wp+Zp  R+Wp+Zp  R+Wp+Zp  R+Wp+Zp  .        R+Wp+Zp  R+Wp+Zp
I4_MWARM    I4         R+Wp     R+Wp     R+Wp     R+Wp     .        R+Wp     R+Wp
I4_INCR     I4         R        R        R        R        .        R        R
I4CHAIN     I4_CHAIN   R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  R+Ws+Zs  .        R+Ws+Zs
I4_STREAM   I4_STREAM  R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     R+Wb     .
SDP         F16        K        .        K        K        K        K        K
SDP         I8         K        K        .        K        K        K        K
"""

MATRICES = (
    (ModeKnobs(), DEFAULT),
    (ModeKnobs(nothrash=True), NOTHRASH),
    (ModeKnobs(f16warm=False), F16_COLD),
)


def cells(matrix):
    return {
        (profile, source, target): code
        for profile, target, *codes in (line.split() for line in matrix.split("\n") if line)
        for source, code in zip(SOURCES, codes, strict=True)
    }


@pytest.mark.parametrize(("knobs", "matrix"), MATRICES, ids=["default", "nothrash", "f16-cold"])
def test_every_cell_is_the_published_one(knobs, matrix):
    computed = {key: step.code for key, step in transition_table(knobs).items()}
    assert computed == cells(matrix)
    assert len(computed) == 14 * 7


def test_with_sdp_resets_every_sdp_entry_resets_and_nothing_else_moves():
    plain, changed = transition_table(), transition_table(ModeKnobs(sdp_noreset=False))
    for key, step in changed.items():
        if step.profile is Profile.SDP and step.changed:
            assert step.code == "R"
        else:
            assert step == plain[key]


def test_a_profile_runs_only_in_its_modes():
    with pytest.raises(ValueError, match="CHAIN_NT does not run in mode I4; it runs in I8_CHAIN"):
        transition(Profile.CHAIN_NT, Mode.I8, Mode.I4)
    for profile in POLICIES:
        with pytest.raises(ValueError, match="does not run in mode cold"):
            transition(profile, Mode.I8, Mode.COLD)


def test_there_is_one_policy_per_profile():
    assert set(POLICIES) == set(Profile)
    assert len(Profile) == 11


def warm_state(mode, knobs=DEFAULT_KNOBS):
    state = ModeState(cores=3, knobs=knobs, domain=4, last_mode=mode)
    state.warm_cores = [True] * 3
    state.size_cores = [4096] * 3
    state.lut_loaded = [True] * 3
    state.task_built = [True] * 3
    state.int4_may_be_left = False
    state.warm_scalar = True
    state.size_scalar = 4096
    return state


@pytest.mark.parametrize(("knobs", "matrix"), MATRICES, ids=["default", "nothrash", "f16-cold"])
def test_entering_clears_what_the_cell_says_and_nothing_else(knobs, matrix):
    for (profile, source, target), code in cells(matrix).items():
        state = warm_state(Mode(source), knobs)
        step = state.enter(Mode(target), Profile(profile))
        assert step.code == code
        assert state.last_mode == (source if profile == "SDP" else target)
        reset = "R" in code
        assert state.resets == reset
        assert state.lut_loaded == state.task_built == [not reset] * 3
        assert state.warm_cores == [not ("Wp" in code or "Wb" in code)] * 3
        assert state.warm_scalar is not ("Ws" in code or "Wb" in code)
        assert state.size_cores == [0 if "Zp" in code else 4096] * 3
        assert state.size_scalar == (0 if "Zs" in code else 4096)
        assert state.domain == 4


def test_the_chain_kind_and_the_entry_are_recorded_even_in_the_same_mode():
    state = warm_state(Mode.I8_CHAIN)
    step = state.enter(Mode.I8_CHAIN, Profile.CHAIN_NT, ChainKind.HW)
    assert not step.changed and not step.keep
    assert state.last_chain is ChainKind.HW
    state.enter(Mode.I8, Profile.MC_MM, ChainKind.FUSED)
    assert state.last_chain is ChainKind.FUSED
    assert state.entries == {(Profile.CHAIN_NT, Mode.I8_CHAIN): 1, (Profile.MC_MM, Mode.I8_CHAIN): 1}


def test_a_refused_entry_leaves_the_state_alone():
    state = warm_state(Mode.I8)
    with pytest.raises(ValueError, match="does not run in mode"):
        state.enter(Mode.I4, Profile.SDP, ChainKind.SW)
    assert state == warm_state(Mode.I8)


def test_a_fresh_context_is_cold_everywhere():
    state = ModeState(cores=2)
    assert state.last_mode is Mode.COLD
    assert not any((*state.warm_cores, *state.size_cores, *state.lut_loaded, *state.task_built))


@pytest.mark.parametrize("profile", [Profile.MC_MM, Profile.SC_MM, Profile.STREAM_I8])
@pytest.mark.parametrize("int4", [(Mode.I4, Profile.I4_MC), (Mode.I4_STREAM, Profile.I4_STREAM)])
def test_int8_behind_16_bits_resets_once_for_what_int4_may_have_left(int4, profile):
    state = warm_state(Mode.F16)
    assert state.enter(Mode.I8, profile).keep, "nothing to clean up"
    state.enter(*int4)
    state.enter(Mode.F16, Profile.MC_MM)
    step = state.enter(Mode.I8, profile)
    assert step.reset and step.warm_clear == POLICIES[profile].warm and not step.keep
    state.enter(Mode.F16, Profile.MC_MM)
    assert state.enter(Mode.I8, profile).keep, "the reset has ended it"


def test_nobody_knows_what_ran_before_a_context():
    state = ModeState(cores=3)
    assert not state.enter(Mode.F16, Profile.SC_MM).reset
    assert state.enter(Mode.I8, Profile.SC_MM).reset


def resets(knobs, steps, repeat):
    state = ModeState(cores=3, knobs=knobs)
    for _ in range(repeat):
        for mode, profile in steps:
            state.enter(mode, profile)
    return state.resets


def test_keeping_int8_and_fp16_warm_saves_all_resets_but_the_first():
    layer = [(Mode.I8, Profile.MC_MM), (Mode.F16, Profile.MC_MM)]
    assert resets(ModeKnobs(f16warm=False), layer, 28) == 28
    assert resets(ModeKnobs(), layer, 28) == 1


def test_keeping_integer_modes_warm_saves_resets_outside_the_int4_chain():
    layer = [(Mode.I8, Profile.MC_MM), (Mode.I4, Profile.I4_MC)]
    assert resets(ModeKnobs(), layer, 10) == 20
    assert resets(ModeKnobs(nothrash=True), layer, 10) == 1


def test_element_wise_work_costs_resets_only_with_the_knob_off():
    layer = [(Mode.I8, Profile.MC_MM), (Mode.F16, Profile.SDP)]
    assert resets(ModeKnobs(), layer, 10) == 1
    assert resets(ModeKnobs(sdp_noreset=False), layer, 10) == 11


def test_a_mixed_pack_of_80_layers_resets_160_times_per_pass():
    mixed = [(Mode.I8_CHAIN, Profile.CHAIN_NT), (Mode.I4_CHAIN, Profile.I4CHAIN)]
    once, twice = resets(ModeKnobs(), mixed, 80), resets(ModeKnobs(), mixed, 160)
    assert twice - once == 160
    assert (twice - once) * RESET_MS == 16_800
    assert resets(ModeKnobs(), [mixed[0]] * 80 + [mixed[1]] * 80, 1) == 2


def test_resets_of_a_mixed_pack_are_80_for_each_of_two_profiles():
    state = ModeState(cores=3)
    state.enter(Mode.I4_CHAIN, Profile.I4CHAIN)
    state.entries.clear()
    before = state.resets
    for _ in range(80):
        state.enter(Mode.I8_CHAIN, Profile.CHAIN_NT)
        state.enter(Mode.I4_CHAIN, Profile.I4CHAIN)
    assert state.entries == {(Profile.CHAIN_NT, Mode.I4_CHAIN): 80, (Profile.I4CHAIN, Mode.I8_CHAIN): 80}
    assert state.resets - before == 160


def test_fp16_then_int8_chain_needs_no_reset_by_default():
    assert transition(Profile.CHAIN_NT, Mode.F16, Mode.I8_CHAIN).keep
    assert transition(Profile.CHAIN_NT, Mode.F16, Mode.I8_CHAIN, ModeKnobs(f16warm=False)).reset


def test_codes_name_every_action_once():
    seen = {part for step in transition_table().values() for part in step.code.split("+")}
    assert seen == {"R", "Wp", "Ws", "Wb", "Zp", "Zs", "K", "."}
    assert len({clear.value for clear in Clear}) == len(Clear)


def test_the_int4_chain_shares_no_warmth_with_any_mode():
    for first, second in pairwise((Mode.I8_CHAIN, Mode.I4_CHAIN, Mode.I8_CHAIN)):
        profile = Profile.I4CHAIN if second is Mode.I4_CHAIN else Profile.CHAIN_NT
        for knobs in (ModeKnobs(), ModeKnobs(nothrash=True), ModeKnobs(f16warm=False)):
            assert transition(profile, first, second, knobs).reset
