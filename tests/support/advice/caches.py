# SPDX-License-Identifier: Apache-2.0
"""Programs whose graphs a cache of torch.compile does not accept, and programs that fail for want of a GPU, for the remedies of that.

None has a kernel that Inductor would write in C++.
"""

from support.advice import Program

START = """
import torch

results = []

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight):
        ctx.save_for_backward(weight)
        return rows @ weight

    @staticmethod
    def backward(ctx, gradient):
        (weight,) = ctx.saved_tensors
        return gradient @ weight.T, None

rows, weight = torch.ones(5, 5, requires_grad=True), torch.eye(5)
"""
SWITCH = "torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True"


def custom(title, source, would=None):
    return Program("custom_functions", title, START + source, would)


def disabled(title, variables, would=None):
    source = (
        "import torch\ncompiled = torch.compile(lambda rows: rows @ rows)\nresults = [compiled(torch.ones(4, 4))]\n"
    )
    return Program("caches_of_graphs", title, source, would, slow=True, variables=variables)


def driver(title, source, would=None):
    return Program("without_gpu", title, source, would, slow=True)


PROGRAMS = [
    custom(
        "a custom `torch.autograd.Function`",
        """
@torch.compile
def times(rows):
    return Times.apply(rows, weight)

results.append(times(rows))
""",
    ),
    custom(
        "one that is called twice in a module",
        """
class Net(torch.nn.Module):
    def forward(self, rows):
        return Times.apply(Times.apply(rows, weight), weight)

results.append(torch.compile(Net())(rows))
""",
    ),
    custom(
        "one in each of two functions",
        """
@torch.compile
def times(rows):
    return Times.apply(rows, weight)

@torch.compile
def twice(rows):
    return Times.apply(rows, weight) @ weight

results += [times(rows), twice(rows)]
""",
    ),
    custom(
        "`torch.cond`, which the cache does not accept",
        """
@torch.compile
def chosen(rows):
    return torch.cond(rows.sum() > 0, lambda rows: rows @ rows, lambda rows: rows @ rows.T, (rows,))

results.append(chosen(rows.detach()))
""",
        SWITCH,
    ),
    custom(
        "no custom function, and nothing that the cache does not accept",
        """
@torch.compile
def times(rows):
    return rows @ weight

results.append(times(rows))
""",
        SWITCH,
    ),
    disabled("all caches are disabled", {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
    disabled("all caches are disabled, by another name", {"TORCH_COMPILE_FORCE_DISABLE_CACHES": "1"}),
    disabled(
        "two variables disable the cache",
        {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"},
    ),
    disabled("a variable that leaves the cache on", {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}, ""),
    disabled("a folder of its own", {"TORCHINDUCTOR_CACHE_DIR": "{folder}"}, ""),
    driver("a tensor for the GPU", "import torch\ntorch.ones(1, device='cuda')\n"),
    driver("a model that is moved to the GPU", "import torch\ntorch.nn.Linear(2, 2).cuda()\n"),
    driver("Torch-TensorRT, which looks for a GPU when it is imported", "import torch_tensorrt\n"),
    driver(
        "an exception of the program's own", "import torch\nraise ValueError('mine')\n", "torchspan run --without-gpu"
    ),
    driver("an exit status of the program's own", "import sys, torch\nsys.exit(3)\n", "torchspan run --without-gpu"),
    driver(
        "TensorRT without PyTorch", "import tensorrt_rtx\nraise ValueError('mine')\n", "torchspan run --without-gpu"
    ),
]
