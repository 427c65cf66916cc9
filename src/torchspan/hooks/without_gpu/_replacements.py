# SPDX-License-Identifier: Apache-2.0
"""DATA: what is replaced without a GPU, and by what. `_switch.py` applies the rows."""

from __future__ import annotations

from typing import NamedTuple


class Replacement(NamedTuple):
    """One row: names that are replaced in the same way for the same reason.

    Attributes:
        module: The module in which names are replaced.
        names: The names, separated by spaces, each a dotted path inside the module. A name that the installed version lacks is
            left out.
        maker: `module:name` inside `torchspan.testing`, which is called with the original and its dotted name and returns
            the replacement.
        is_stand_in: Whether the replacement answers, or refuses, in place of the original. Otherwise the original runs.
    """

    module: str
    names: str
    maker: str
    is_stand_in: bool = False


def _cuda(names: str, maker: str) -> Replacement:
    return Replacement("torch.cuda", names, maker, is_stand_in=True)


_FACTORIES = """
    arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_quantized empty_strided eye
    fft.fftfreq fft.rfftfreq full full_like hamming_window hann_window kaiser_window linspace logspace nested.nested_tensor
    nested.as_nested_tensor normal ones ones_like rand rand_like randint randint_like randn randn_like randperm range
    scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
    sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like
"""

# Applied once torch is imported. Order matters in one place: default devices must be known before factories are replaced.
TORCH = (
    # The libraries' own CUDA branches call what has no stand-in, so that they are given the answer that there is no device.
    _cuda("is_available", "_stand_in_answers:AVAILABLE"),
    _cuda("device_count", "_stand_in_answers:DEVICE_COUNT"),
    # torch_tensorrt asks while it is imported.
    _cuda("current_device", "_stand_in_answers:ZERO"),
    # There is one device, ready and current.
    _cuda("set_device init ipc_collect", "_stand_in_answers:NOTHING"),
    _cuda("device device_of", "_stand_in_answers:ON_DEVICE"),
    # torch_tensorrt writes name and capability into the engine's metadata, and chooses lowering passes by the capability.
    _cuda("get_device_properties", "_stand_in_answers:PROPERTIES"),
    _cuda("get_device_name", "_stand_in_answers:NAME"),
    _cuda("get_device_capability", "_stand_in_answers:CAPABILITY"),
    _cuda("is_bf16_supported is_tf32_supported", "_stand_in_answers:TRUE"),
    _cuda("can_device_access_peer is_current_stream_capturing", "_stand_in_answers:FALSE"),
    # torch_tensorrt looks for room. No device memory is used: torch's own functions answer 0 where CUDA is not initialized.
    _cuda("mem_get_info", "_stand_in_answers:MEMORY"),
    _cuda("memory_summary", "_stand_in_answers:TEXT"),
    _cuda("reset_peak_memory_stats set_per_process_memory_fraction", "_stand_in_answers:NOTHING"),
    # Work is done when its call returns, so that streams order nothing. Events keep the host's time, for timing loops.
    _cuda("synchronize", "_stand_in_answers:NOTHING"),
    _cuda("Stream", "_stand_in_answers:STREAM"),
    _cuda("Event", "_stand_in_answers:EVENT"),
    _cuda("StreamContext stream", "_stand_in_answers:STREAM_CONTEXT"),
    _cuda("current_stream", "_stand_in_answers:CURRENT_STREAM"),
    _cuda("default_stream", "_stand_in_answers:DEFAULT_STREAM"),
    _cuda("set_stream", "_stand_in_answers:SET_STREAM"),
    _cuda("manual_seed manual_seed_all", "_cuda:manual_seed"),
    _cuda("CUDAGraph graph", "_cuda:refuses_class"),
    # Every access to CUDA passes it, from functions of C++ too: what no other row covers is refused here.
    _cuda("_lazy_init", "_cuda:no_initialization"),
    # set_default_device('cuda') and `with torch.device('cuda')` add device= behind the factories' back.
    Replacement("torch.utils._device", "DeviceContext.__init__", "_devices:first_argument"),
    # Tensors cannot be allocated on a GPU: every CUDA device means the CPU, and memory is not pinned.
    Replacement("torch", _FACTORIES, "_devices:torch_factory"),
    Replacement(
        "torch",
        "Tensor.new_empty Tensor.new_full Tensor.new_ones Tensor.new_tensor Tensor.new_zeros",
        "_devices:factory",
    ),
    Replacement("torch", "Tensor.to storage._StorageBase.to storage.TypedStorage.to", "_devices:tensor_to"),
    Replacement(
        "torch",
        "Tensor.cuda Tensor.pin_memory storage._StorageBase.cuda storage.TypedStorage.cuda",
        "_devices:itself",
        is_stand_in=True,
    ),
    Replacement("torch", "Tensor.record_stream", "_stand_in_answers:NOTHING", is_stand_in=True),
    Replacement("torch", "Generator", "_devices:generator"),
    # It would warn and do nothing.
    Replacement("torch.amp.autocast_mode", "autocast.__init__", "_devices:autocast"),
    # torch.load of CUDA tensors, or with map_location='cuda', would raise.
    Replacement("torch.serialization", "default_restore_location", "_devices:restore_location"),
)

# Applied when the body of TensorRT's package, `tensorrt` or `tensorrt_rtx`, has run, before any post-import hook.
TENSORRT = (
    # Deserializing needs a driver.
    Replacement("tensorrt", "Runtime.deserialize_cuda_engine", "_stand_in_tensorrt:deserialize", is_stand_in=True),
    # The real ones have no instances without a GPU, and isinstance should hold. The real Refitter takes only a real engine.
    Replacement(
        "tensorrt", "ICudaEngine IExecutionContext Refitter", "_stand_in_tensorrt:stand_in_class", is_stand_in=True
    ),
    # Refittable engines of TensorRT-RTX are built with a driver only.
    Replacement("tensorrt", "IBuilderConfig.set_flag", "_stand_in_tensorrt:set_flag"),
    # The real build, whose engine must be found again.
    Replacement("tensorrt", "Builder.build_serialized_network", "_stand_in_tensorrt:build_serialized"),
    # torch_tensorrt on full TensorRT builds with it.
    Replacement("tensorrt", "Builder.build_engine_with_config", "_stand_in_tensorrt:build_engine", is_stand_in=True),
)

_INTERPRETER = "torch_tensorrt.dynamo.conversion._TRTInterpreter"
_RUNTIME = "torch_tensorrt.dynamo.runtime"
_UP_TO_2_12 = f"{_RUNTIME}._PythonTorchTensorRTModule"

# Applied when the body of torch_tensorrt has run, before any post-import hook.
TORCH_TENSORRT = (
    # The subgraph must be kept, with a copy of its weights.
    Replacement(_INTERPRETER, "TRTInterpreter._construct_trt_network_def", "_library:construct_network"),
    # An engine also returns what a node writes to an input (a KV-cache update), and the node must be known.
    Replacement(_INTERPRETER, "TRTInterpreter.run_node", "_library:run_node"),
    # Attention on the CPU would fall back to PyTorch, as attention on a GPU does not.
    Replacement(
        "torch_tensorrt.dynamo.lowering._decompositions",
        "TORCH_TRT_DECOMPOSITIONS",
        "_library:decompose_attention_of_the_cpu",
    ),
    # The refitter must know the new subgraph.
    Replacement("torch_tensorrt.dynamo._refit", "_refit_single_trt_engine_with_gm", "_library:refit_engine"),
    # The Python runtime's makes numbers of the sizes of outputs, and no export with dynamic shapes would work.
    Replacement(f"{_RUNTIME}._TRTEngine", "execute_engine._abstract_fn", "_library:fake_kernel", is_stand_in=True),
    # Constants of the graph are made there.
    Replacement("torch_tensorrt._Device", "Device.to", "_library:device_to", is_stand_in=True),
    # model.device is the CPU here, and torch_tensorrt takes CUDA devices only.
    Replacement("torch_tensorrt._Device", "Device._from", "_library:device_from"),
    # They ignore that TensorRT refuses a shape, which the C++ runtime raises. The second one is the module up to 2.12.
    Replacement(f"{_RUNTIME}._TRTEngine", "TRTEngine.setup_input_tensors", "_library:setup_inputs"),
    Replacement(_UP_TO_2_12, "PythonTorchTensorRTModule.setup_input_tensors", "_library:setup_inputs"),
    # What they say about inputs on the CPU would break Dynamo's graph. The second one is the module up to 2.12.
    Replacement(f"{_RUNTIME}._TorchTensorRTModule", "logger.warning", "_library:quiet_about_inputs"),
    Replacement(_UP_TO_2_12, "logger.warning", "_library:quiet_about_inputs"),
)
