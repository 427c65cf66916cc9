# SPDX-License-Identifier: Apache-2.0
"""Which of the processes of a job this one is, by the variables that launchers set; and selections of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ALL = "all"
"""The selection of every process, whether or not it has a rank."""


# Each row: the variables of the rank, of the rank on the host, and of the number of processes. Empty if there is none.
_LAUNCHERS = (
    # torchrun, and whatever prepares for init_process_group("env://"): Accelerate, DeepSpeed, Kubeflow's PyTorchJob.
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH2
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),  # MPICH and Intel MPI
    # srun. A batch script is process 0, and its SLURM_NTASKS counts processes that it does not start.
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
    ("JOB_COMPLETION_INDEX", "", ""),  # the pod of an Indexed Job of Kubernetes
)
"""Launchers. The first one with a rank is the one that started this process. torchrun may itself be started by srun, and a launcher
of processes by Kubernetes; the variables that those have set still exist."""

_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_IDS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
_NO_ID = {"", "none"}
"""`none` is torchrun's id of a run without an id."""

_DIGITS = 9
"""Digits of the largest number. No regular expression is compiled here: every Python that an instrumented program starts imports
this."""


class Launched(NamedTuple):
    """The place of this process in a job, by its variables. None for what they do not contain.

    Attributes:
        rank: Its number among all processes of the job.
        local_rank: Its number among those on the same host.
        world_size: How many there are.
        restart_count: How often the job has been started again.
        run_id: The id of the job.
    """

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    restart_count: int | None = None
    run_id: str | None = None


def launched(environment: Mapping[str, str]) -> Launched:
    """Read `environment`. A value that is not a number counts as not set."""
    launched = Launched()
    for names in _LAUNCHERS:
        rank, local_rank, world_size = (_number(environment, name) for name in names)
        if rank is not None:
            launched = Launched(rank, local_rank, world_size)
            break
    restarts = (_number(environment, name) for name in _RESTARTS)
    ids = (environment.get(name, "").strip() for name in _IDS)
    return launched._replace(
        restart_count=next((restart for restart in restarts if restart is not None), None),
        run_id=next((id_ for id_ in ids if id_ not in _NO_ID), None),
    )


def rank(environment: Mapping[str, str]) -> int | None:
    """The rank of this process by `environment`; None without one."""
    return launched(environment).rank


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip() if name else ""
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


class Selection:
    """Some of the ranks: `0`, `0-7`, `0,4-6`.

    Raises ValueError for any other text.

    Args:
        text: Numbers and ranges (which include both ends), separated by commas.
    """

    def __init__(self, text: str) -> None:
        self._ranges: list[tuple[int, int]] = []
        for part in text.split(","):
            first, dash, last = (bound.strip() for bound in part.partition("-"))
            if not _is_number(first) or not _is_number(last if dash else first):
                raise ValueError(f"{part.strip()!r} is neither a number nor a range such as 0-7")
            ends = int(first), int(last or first)
            if ends[1] < ends[0]:
                raise ValueError(f"{part.strip()!r} ends before it begins")
            self._ranges.append(ends)

    def __contains__(self, rank: int) -> bool:
        return any(first <= rank <= last for first, last in self._ranges)

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self._ranges)
