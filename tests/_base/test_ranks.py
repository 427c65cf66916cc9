# SPDX-License-Identifier: Apache-2.0
"""What launchers say in their variables, and selections of ranks."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchspan.words.sampling.ranks import Launched, Selection, launched, rank

TORCHRUN = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_RUN_ID": "job-7",
    "GROUP_RANK": "2", "LOCAL_WORLD_SIZE": "4", "ROLE_RANK": "5", "TORCHELASTIC_MAX_RESTARTS": "3",
}  # fmt: skip
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8"}
MVAPICH2 = {"MV2_COMM_WORLD_RANK": "5", "MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_SIZE": "8"}
MPICH = {"PMI_RANK": "5", "MPI_LOCALRANKID": "1", "PMI_SIZE": "8"}
SLURM = {
    "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8",
    "SLURM_RESTART_COUNT": "2", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Launched()),
        (TORCHRUN, Launched(5, 1, 8, 2, "job-7")),
        (OPEN_MPI, Launched(5, 1, 8)),
        (MVAPICH2, Launched(5, 1, 8)),
        (MPICH, Launched(5, 1, 8)),
        (SLURM, Launched(5, 1, 8, 2, "4711")),
        ({"JOB_COMPLETION_INDEX": "5"}, Launched(5)),
        ({"RANK": "0"}, Launched(0)),
    ],
    ids=["none", "torchrun", "Open MPI", "MVAPICH2", "MPICH", "srun", "Kubernetes", "RANK alone"],
)
def test_each_launchers_variables_are_read(environment, expected):
    assert launched(environment) == expected
    assert rank(environment) == expected.rank


def test_torchrun_below_srun_says_the_rank_and_slurm_what_torchrun_does_not_know():
    torchrun = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
    srun = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "4711"}
    assert launched({**srun, **torchrun}) == Launched(3, 3, 4, None, "4711")


def test_what_one_launcher_does_not_say_is_not_taken_from_another():
    assert launched({"RANK": "3", **SLURM, **OPEN_MPI})[:3] == (3, None, None)


def test_a_batch_script_of_slurm_does_not_count_processes_that_it_has_not_started():
    assert launched({"SLURM_PROCID": "0", "SLURM_NTASKS": "64"}) == Launched(0)


@pytest.mark.parametrize("text", ["", " ", "gold", "-1", "1.5", "0x1", "1e3", "\u0661", "9" * 10, "None", "1 2"])
def test_a_value_that_is_not_a_number_counts_as_not_set(text):
    assert launched({"RANK": text, "LOCAL_RANK": text, "PMI_RANK": "2", "PMI_SIZE": text}) == Launched(2)


def test_spaces_around_a_number_do_not_matter():
    assert rank({"RANK": " 7\n"}) == 7


# --- selections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [0]),
        ("0-3", [0, 1, 2, 3]),
        ("0,4", [0, 4]),
        (" 0 , 2 - 3 ,7", [0, 2, 3, 7]),
        ("5-5", [5]),
        ("3,1-4", [1, 2, 3, 4]),
    ],
)
def test_a_selection_has_its_numbers_and_ranges_with_both_ends(text, expected):
    selection = Selection(text)
    assert [each for each in range(12) if each in selection] == expected


@pytest.mark.parametrize(
    "text", ["", " ", ",", "0,", "-1", "1-", "-", "3-1", "all", "0..7", "a", "1;2", "9" * 10, "1-2-3"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"is neither a number nor a range such as 0-7|ends before it begins"):
        Selection(text)


@given(st.lists(st.tuples(st.integers(0, 10**9 - 1), st.integers(0, 100)), min_size=1), st.integers(0, 10**9))
def test_a_selection_reads_its_own_text(ranges, some_rank):
    pairs = [(first, min(first + more, 10**9 - 1)) for first, more in ranges]
    selection = Selection(",".join(f"{first}-{last}" for first, last in pairs))
    again = Selection(str(selection))
    assert str(again) == str(selection)
    assert (some_rank in again) is any(first <= some_rank <= last for first, last in pairs)


@given(st.text())
def test_any_text_is_a_selection_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        assert str(Selection(str(Selection(text)))) == str(Selection(text))
