# SPDX-License-Identifier: Apache-2.0
"""Every form in which a program says "cuda"."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest
import torch

import torchspan.testing
from testing.models import GPU

CUDA_DEVICES = ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda", 0)]


@pytest.mark.parametrize("device", CUDA_DEVICES, ids=str)
def test_factories_take_every_name_of_the_device(device):
    assert torch.randn(2, 3, device=device).device == GPU
    assert torch.tensor([1.0], device=device).device == GPU
    assert torch.zeros_like(torch.ones(2), device=device).device == GPU
    assert torch.ones(2).new_zeros(3, device=device).device == GPU
    assert torch.as_tensor([1, 2], device=device).device == GPU
    assert torch.fft.fftfreq(4, device=device).device == GPU


@pytest.mark.parametrize("device", CUDA_DEVICES, ids=str)
def test_tensors_and_modules_move_to_every_name_of_the_device(device):
    x = torch.ones(2, device="cuda")
    assert x.to(device) is x and x.to(device=device) is x and x.cuda() is x
    assert x.to(device, torch.float16, non_blocking=True).dtype is torch.float16
    assert next(torch.nn.Linear(2, 2).to(device).parameters()).device == GPU
    assert next(torch.nn.Linear(2, 2).to(device, torch.bfloat16).parameters()).dtype is torch.bfloat16
    assert next(torch.nn.Linear(2, 2, device=device).parameters()).device == GPU
    assert next(torch.nn.Linear(2, 2).cuda(0).half().parameters()).dtype is torch.float16


def test_other_devices_mean_what_they_say():
    meta = torch.empty(2, device="meta")
    assert meta.device.type == "meta" and torch.zeros(2).to("meta").is_meta
    with torch.device("meta"):
        assert torch.zeros(2).is_meta and torch.randn(2).is_meta
    assert torch.zeros(2).to(torch.ones(1, dtype=torch.int64)).dtype is torch.int64
    assert torch.ones(2).to(torch.float64).dtype is torch.float64
    assert torch.full((2,), True).dtype is torch.bool


def test_default_devices_of_cuda_mean_the_gpu():
    with torch.device("cuda"):
        assert torch.zeros(2).device == GPU
    torch.set_default_device("cuda")
    try:
        assert torch.arange(3).device == GPU
    finally:
        torch.set_default_device(None)


def test_checkpoints_saved_on_cuda_load():
    file = io.BytesIO()
    torch.save({"w": torch.arange(4.0)}, file)
    for where in ("cuda", "cuda:0", torch.device("cuda"), {"cpu": "cuda:0"}, lambda storage, _: storage.cuda()):
        file.seek(0)
        assert torch.load(file, map_location=where)["w"].tolist() == [0, 1, 2, 3]
    assert torch.serialization.default_restore_location(torch.UntypedStorage(4), "cuda:0").device == GPU


def test_generators_on_cuda_are_generators():
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    first = torch.randn(2, generator=generator, device="cuda")
    assert torch.equal(first, torch.randn(2, generator=generator.manual_seed(3), device="cuda"))
    assert issubclass(type(generator), torch.Generator)


@pytest.mark.stand_in_only("a real GPU has numbers of its own")
def test_generators_on_cuda_give_the_numbers_of_the_cpu():
    first = torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(3), device="cuda")
    assert torch.equal(first, torch.randn(2, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_autocast_on_cuda_runs_in_the_type_that_cuda_would_use(dtype):
    linear, x = torch.nn.Linear(4, 4).cuda(), torch.randn(2, 4, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        assert linear(x).dtype is (dtype or torch.float16)
    with torch.autocast(device_type="cuda", enabled=False):
        assert linear(x).dtype is torch.float32


@pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*is deprecated:FutureWarning")
def test_older_names_of_mixed_precision_work():
    linear, x = torch.nn.Linear(4, 4).cuda(), torch.randn(2, 4, device="cuda")
    with torch.cuda.amp.autocast():
        assert linear(x).dtype is torch.float16


@pytest.mark.stand_in_only("a real GPU pins memory")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
def test_pinned_memory_is_ordinary_memory():
    x = torch.ones(2)
    assert x.pin_memory() is x and not torch.empty(2, pin_memory=True).is_pinned()
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2, pin_memory=True)
    assert [batch.to("cuda", non_blocking=True).tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_another_thread_sees_the_same():
    answers = []

    def work():
        answers.append(torch.randn(2, device="cuda").device)
        answers.append(torch.nn.Linear(2, 2).to("cuda").weight.device)
        answers.append(torch.cuda.is_available())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [GPU, GPU, True]


def test_what_other_parts_of_torch_know_by_identity_they_still_know():
    assert torch.jit._builtins._find_builtin(torch.zeros) == "aten::zeros"
    assert torch.zeros.__name__ == "zeros" and copy.copy(torch.zeros) is torch.zeros
    graph = torch.fx.symbolic_trace(lambda x: x + torch.zeros_like(x) + torch.full((x.size(0),), 2))
    assert "torch.zeros_like(" in graph.code and "torch.full(" in graph.code
    assert pickle.loads(pickle.dumps(graph))(torch.ones(2)).tolist() == [3, 3]


@pytest.mark.stand_in_only("refused")
def test_a_way_to_cuda_that_no_row_covers_names_the_caller():
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"test_devices.py:\d+\) needs a GPU"):
        torch._C._VariableFunctions.zeros(2, device="cuda")


@pytest.mark.stand_in_only("refused")
def test_an_operator_called_past_torchs_functions_fails_with_torchs_error():
    with pytest.raises(RuntimeError, match="NVIDIA"):
        torch.ops.aten.zeros([2], device="cuda")
