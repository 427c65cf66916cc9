# SPDX-License-Identifier: Apache-2.0
"""Real compilations, in one process: importing torch_tensorrt costs seconds."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the libraries warn of while they are imported is theirs
    import torch
    import torch_tensorrt


@pytest.fixture(autouse=True)
def fresh_compilers():
    """Dynamo remembers compiled functions and Torch-TensorRT its last settings; every test starts without."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def version():
    """(major, minor) of torch_tensorrt."""
    major, minor = torch_tensorrt.__version__.split(".")[:2]
    return int(major), int(minor)
