# SPDX-License-Identifier: Apache-2.0
"""DATA: what is replaced without a GPU, by what, and why. `_switch.py` applies the rows. The docstring shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["answers", "redirects", "refuses", "observes"]


@dataclass(frozen=True)
class Replacement:
    """One row: names that are replaced in the same way for the same reason.

    Attributes:
        module: The module in which names are replaced.
        names: The names, each a dotted path inside the module. A name that the installed version lacks is left out.
        kind: `answers`: a stand-in answers in place of the original. `redirects`: the original runs with changed arguments,
            such as the CPU in place of a CUDA device. `refuses`: the call raises `NeedsGpuError`. `observes`: the original
            runs with the same arguments.
        does: What a caller sees.
        why: What would happen without the replacement.
        maker: `module:name` inside `torchspan.testing`, which is called with the original and its dotted name and returns
            the replacement.
    """

    module: str
    names: tuple[str, ...]
    kind: Kind
    does: str
    why: str
    maker: str


def _cuda(names: str, kind: Kind, does: str, why: str, maker: str) -> Replacement:
    return Replacement("torch.cuda", tuple(names.split()), kind, does, why, maker)


_FACTORIES = """
    arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_quantized empty_strided eye
    fft.fftfreq fft.rfftfreq full full_like hamming_window hann_window kaiser_window linspace logspace nested.nested_tensor
    nested.as_nested_tensor normal ones ones_like rand rand_like randint randint_like randn randn_like randperm range
    scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
    sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like
"""

# Applied once torch is imported. Order matters in one place: default devices must be known before factories are replaced.
TORCH: tuple[Replacement, ...] = (
    _cuda(
        "is_available",
        "answers",
        "True to the program; False to torch, torch_tensorrt, transformers and triton",
        "the libraries' own CUDA branches call what has no stand-in",
        "_stand_in_answers:AVAILABLE",
    ),
    _cuda(
        "device_count",
        "answers",
        "1 to the program, 0 to the libraries",
        "as is_available",
        "_stand_in_answers:DEVICE_COUNT",
    ),
    _cuda("current_device", "answers", "0", "torch_tensorrt asks while it is imported", "_stand_in_answers:ZERO"),
    _cuda(
        "set_device init ipc_collect", "answers", "nothing", "there is one device, ready", "_stand_in_answers:NOTHING"
    ),
    _cuda(
        "device device_of",
        "answers",
        "a context that changes nothing",
        "there is one device",
        "_stand_in_answers:ON_DEVICE",
    ),
    _cuda(
        "get_device_properties",
        "answers",
        "a device of compute capability 8.9 named 'torchspan stand-in' with 24 GiB",
        "torch_tensorrt writes name and capability into the engine's metadata",
        "_stand_in_answers:PROPERTIES",
    ),
    _cuda("get_device_name", "answers", "'torchspan stand-in'", "as get_device_properties", "_stand_in_answers:NAME"),
    _cuda(
        "get_device_capability",
        "answers",
        "(8, 9)",
        "decides lowering passes by platform",
        "_stand_in_answers:CAPABILITY",
    ),
    _cuda("is_bf16_supported is_tf32_supported", "answers", "True", "true of capability 8.9", "_stand_in_answers:TRUE"),
    _cuda(
        "can_device_access_peer is_current_stream_capturing",
        "answers",
        "False",
        "no peer, no graph",
        "_stand_in_answers:FALSE",
    ),
    _cuda(
        "mem_get_info", "answers", "(20 GiB free, 24 GiB)", "torch_tensorrt looks for room", "_stand_in_answers:MEMORY"
    ),
    _cuda(
        "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached",
        "answers",
        "0",
        "no device memory is used",
        "_stand_in_answers:ZERO",
    ),
    _cuda("memory_stats memory_stats_as_nested_dict", "answers", "an empty dict", "as above", "_stand_in_answers:DICT"),
    _cuda("memory_summary", "answers", "''", "as above", "_stand_in_answers:TEXT"),
    _cuda(
        "empty_cache reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated "
        "reset_max_memory_cached set_per_process_memory_fraction set_sync_debug_mode",
        "answers",
        "nothing",
        "no device memory is used",
        "_stand_in_answers:NOTHING",
    ),
    _cuda("get_sync_debug_mode", "answers", "0", "nothing synchronises", "_stand_in_answers:ZERO"),
    _cuda("synchronize", "answers", "nothing", "work is done when its call returns", "_stand_in_answers:NOTHING"),
    _cuda("Stream", "answers", "streams that order nothing", "as synchronize", "_stand_in_answers:STREAM"),
    _cuda("Event", "answers", "events that keep the host's time", "timing loops", "_stand_in_answers:EVENT"),
    _cuda(
        "StreamContext stream",
        "answers",
        "a context that sets the current stream",
        "as Stream",
        "_stand_in_answers:STREAM_CONTEXT",
    ),
    _cuda(
        "current_stream",
        "answers",
        "this thread's stream",
        "the runtime compares it",
        "_stand_in_answers:CURRENT_STREAM",
    ),
    _cuda(
        "default_stream",
        "answers",
        "the one default stream",
        "the runtime compares it",
        "_stand_in_answers:DEFAULT_STREAM",
    ),
    _cuda("set_stream", "answers", "sets this thread's stream", "as Stream", "_stand_in_answers:SET_STREAM"),
    _cuda(
        "manual_seed manual_seed_all",
        "answers",
        "seeds the CPU's generator",
        "tensors come from it",
        "_cuda:manual_seed",
    ),
    _cuda("seed seed_all", "answers", "seeds the CPU's generator at random", "as manual_seed", "_cuda:seed"),
    _cuda("initial_seed", "answers", "the CPU's", "as manual_seed", "_cuda:initial_seed"),
    _cuda("get_rng_state", "answers", "the CPU's", "as manual_seed", "_cuda:get_rng_state"),
    _cuda("get_rng_state_all", "answers", "the CPU's, in a list", "as manual_seed", "_cuda:get_rng_state_all"),
    _cuda("set_rng_state", "answers", "sets the CPU's", "as manual_seed", "_cuda:set_rng_state"),
    _cuda("set_rng_state_all", "answers", "sets the CPU's to the first", "as manual_seed", "_cuda:set_rng_state_all"),
    _cuda(
        "CUDAGraph graph ExternalStream GreenContext MemPool CUDAPluggableAllocator",
        "refuses",
        "cannot be constructed",
        "CUDA graphs, foreign streams and allocators exist on a GPU only",
        "_cuda:refuses_class",
    ),
    _cuda(
        "caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable "
        "change_current_allocator clock_rate cudart current_blas_handle current_solver_handle device_memory_used "
        "export_dot export_graph_data get_per_process_memory_fraction get_stream_from_external graph_pool_handle "
        "host_memory_stats host_memory_stats_as_nested_dict list_gpu_processes make_graphed_callables memory_snapshot "
        "memory_usage power_draw reset_accumulated_host_memory_stats reset_peak_host_memory_stats temperature use_mem_pool "
        "utilization jiterator._create_jit_fn jiterator._create_multi_output_jit_fn",
        "refuses",
        "raises",
        "there is nothing true to answer",
        "_cuda:refuses",
    ),
    _cuda(
        "_lazy_init",
        "refuses",
        "raises, naming the caller",
        "every access to CUDA passes it, from functions of C++ too: what no other row covers is refused here",
        "_cuda:no_initialization",
    ),
    Replacement(
        "torch.utils._device",
        ("DeviceContext.__init__",),
        "redirects",
        "set_default_device('cuda') and `with torch.device('cuda')` mean the CPU",
        "they add device= behind the factories' back",
        "_devices:first_argument",
    ),
    Replacement(
        "torch",
        tuple(_FACTORIES.split()),
        "redirects",
        "device= of CUDA means the CPU; memory is not pinned",
        "tensors cannot be allocated on a GPU",
        "_devices:torch_factory",
    ),
    Replacement(
        "torch",
        tuple(f"Tensor.{name}" for name in ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")),
        "redirects",
        "device= of CUDA means the CPU",
        "as the factories",
        "_devices:factory",
    ),
    Replacement(
        "torch",
        ("Tensor.to", "storage._StorageBase.to", "storage.TypedStorage.to"),
        "redirects",
        "to('cuda'), to(0), to(torch.device('cuda')) mean to('cpu'), also inside Module.to",
        "as the factories",
        "_devices:tensor_to",
    ),
    Replacement(
        "torch",
        (
            "Tensor.cuda",
            "Tensor.pin_memory",
            "storage._StorageBase.cuda",
            "storage._StorageBase.pin_memory",
            "storage.TypedStorage.cuda",
            "storage.TypedStorage.pin_memory",
        ),
        "answers",
        "the tensor itself, also inside Module.cuda",
        "it is where it should be",
        "_devices:itself",
    ),
    Replacement(
        "torch", ("Tensor.record_stream",), "answers", "nothing", "streams order nothing", "_stand_in_answers:NOTHING"
    ),
    Replacement(
        "torch",
        ("Generator",),
        "redirects",
        "Generator('cuda') is one of the CPU",
        "as factories",
        "_devices:generator",
    ),
    Replacement(
        "torch.amp.autocast_mode",
        ("autocast.__init__",),
        "redirects",
        "autocast('cuda') is the CPU's, with float16 unless dtype= says otherwise; torch.cuda.amp.autocast too",
        "it would warn and do nothing",
        "_devices:autocast",
    ),
    Replacement(
        "torch.amp.grad_scaler",
        ("GradScaler.__init__",),
        "redirects",
        "GradScaler('cuda') scales on the CPU",
        "it would warn and do nothing",
        "_devices:grad_scaler",
    ),
    Replacement(
        "torch.serialization",
        ("default_restore_location",),
        "redirects",
        "torch.load of CUDA tensors, or with map_location='cuda', loads to the CPU",
        "it would raise",
        "_devices:restore_location",
    ),
    Replacement(
        "torch.utils.data.dataloader",
        ("DataLoader.__init__",),
        "redirects",
        "pin_memory=True is taken and not done",
        "each iteration would warn",
        "_devices:data_loader",
    ),
)

_RUNTIME = "torch_tensorrt.dynamo.runtime"

# Applied when the body of TensorRT's package, `tensorrt` or `tensorrt_rtx`, has run, before any post-import hook.
TENSORRT: tuple[Replacement, ...] = (
    Replacement(
        "tensorrt",
        ("Runtime.deserialize_cuda_engine",),
        "answers",
        "an engine that runs its subgraph in PyTorch on the CPU: right numbers, no TensorRT timings; None, and an error in "
        "TensorRT's log, for an engine that was built elsewhere or from a network that torch_tensorrt did not construct",
        "deserializing needs a driver, and fails",
        "_stand_in_tensorrt:deserialize",
    ),
    Replacement(
        "tensorrt",
        ("ICudaEngine", "IExecutionContext"),
        "answers",
        "the classes of those engines and of their contexts",
        "the real ones have no instances without a GPU, and isinstance should hold",
        "_stand_in_tensorrt:stand_in_class",
    ),
    Replacement(
        "tensorrt",
        ("Refitter",),
        "answers",
        "the engine continues with the new weights, and its bytes change",
        "the real one takes only a real engine",
        "_stand_in_tensorrt:stand_in_class",
    ),
    Replacement(
        "tensorrt",
        ("IBuilderConfig.set_flag",),
        "redirects",
        "REFIT, REFIT_IDENTICAL, REFIT_INDIVIDUAL and STRIP_PLAN are ignored: size and build time are a plain engine's",
        "refittable engines of TensorRT-RTX are built with a driver only",
        "_stand_in_tensorrt:set_flag",
    ),
    Replacement(
        "tensorrt",
        ("Builder.build_serialized_network",),
        "observes",
        "the real build, real bytes",
        "the engine must be found again",
        "_stand_in_tensorrt:build_serialized",
    ),
    Replacement(
        "tensorrt",
        ("Builder.build_engine_with_config",),
        "answers",
        "builds the bytes for real, then answers as deserialize_cuda_engine",
        "torch_tensorrt on full TensorRT builds with it",
        "_stand_in_tensorrt:build_engine",
    ),
)

# Applied when the body of torch_tensorrt has run, before any post-import hook.
TORCH_TENSORRT: tuple[Replacement, ...] = (
    Replacement(
        "torch_tensorrt.dynamo.conversion._TRTInterpreter",
        ("TRTInterpreter._construct_trt_network_def",),
        "observes",
        "the real network",
        "the subgraph must be kept, with a copy of its weights",
        "_library:construct_network",
    ),
    Replacement(
        "torch_tensorrt.dynamo.conversion._TRTInterpreter",
        ("TRTInterpreter.run_node",),
        "observes",
        "the real conversion of a node",
        "an engine also returns what a node writes to an input (a KV-cache update), and the node must be known",
        "_library:run_node",
    ),
    Replacement(
        "torch_tensorrt.dynamo.lowering._decompositions",
        ("TORCH_TRT_DECOMPOSITIONS",),
        "redirects",
        "decomposes aten._scaled_dot_product_flash_attention_for_cpu as the variants of a GPU",
        "attention on the CPU would fall back to PyTorch, as attention on a GPU does not",
        "_library:decompose_attention_of_the_cpu",
    ),
    Replacement(
        "torch_tensorrt.dynamo._refit",
        ("_refit_single_trt_engine_with_gm",),
        "observes",
        "the real mapping of weights",
        "the refitter must know the new subgraph",
        "_library:refit_engine",
    ),
    Replacement(
        f"{_RUNTIME}._TRTEngine",
        ("execute_engine._abstract_fn",),
        "answers",
        "the sizes of an engine's outputs under fake tensors, as the C++ runtime's: those that vary stay symbols",
        "the Python runtime's makes numbers of them, and no export with dynamic shapes would work",
        "_library:fake_kernel",
    ),
    Replacement(
        "torch_tensorrt._Device",
        ("Device.to",),
        "answers",
        "the CPU",
        "constants of the graph are made there",
        "_library:device_to",
    ),
    Replacement(
        "torch_tensorrt._Device",
        ("Device._from",),
        "redirects",
        "device=torch.device('cpu') means cuda:0",
        "model.device is the CPU here, and torch_tensorrt takes CUDA devices only",
        "_library:device_from",
    ),
    Replacement(
        f"{_RUNTIME}._TorchTensorRTModule",
        ("logger.warning",),
        "redirects",
        "says nothing about inputs on the CPU",
        "Dynamo would break the graph there, as it does not on a GPU",
        "_library:quiet_about_inputs",
    ),
    Replacement(
        f"{_RUNTIME}._PythonTorchTensorRTModule",
        ("logger.warning",),
        "redirects",
        "says nothing about inputs on the CPU (up to 2.12)",
        "as above",
        "_library:quiet_about_inputs",
    ),
)

# Restore right after the body of torch_tensorrt has run, unless said otherwise.
DURING_IMPORT: tuple[str, ...] = (
    "os.path.isfile: no file whose path holds 'libtorchtrt', so that torch_tensorrt takes its Python runtime (since 2.13)",
    "torch._C._CudaDeviceProperties: an empty class where a CPU build of torch has none; this one stays",
    "importlib.util.find_spec: None for a tensorrt.plugin that cannot be imported (2.11 with TensorRT-RTX 1.4 and later)",
)

_LEFT_ALONE = """
    BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CharStorage CharTensor ComplexDoubleStorage
    ComplexFloatStorage CudaError DeferredCudaCallError DoubleStorage DoubleTensor FloatStorage FloatTensor HalfStorage
    HalfTensor IntStorage IntTensor LongStorage LongTensor ShortStorage ShortTensor amp check_error cudaStatus
    default_generators get_allocator_backend get_arch_list get_gencode_flags graph_annotations graphs has_half has_magma
    is_initialized jiterator memory nccl nvtx profiler random sparse streams tunable
"""
LEFT_ALONE: tuple[str, ...] = tuple(_LEFT_ALONE.split())
"""Public names of torch.cuda that answer rightly without a GPU, or hold what the rows above replace."""

LIMITS: tuple[str, ...] = (
    "Numbers are PyTorch's, not TensorRT's; durations of deserializing, executing and refitting mean nothing.",
    "`tensor.device` is the CPU and `tensor.is_cuda` is False; `.cuda()` and `.to('cuda')` copy nothing.",
    "Operators called past torch's functions (torch.ops.aten.zeros(..., device='cuda'), TorchScript) raise torch's own error.",
    "torch.Stream, torch.Event, torch.accelerator and torch.cuda.*Tensor types are torch's own: there is no accelerator.",
    (
        "CUDA graphs, layer times (enable_profiling), get_layer_info, weight streaming, several GPUs, NCCL, the C++ runtime "
        "and custom CUDA or Triton kernels raise NeedsGpuError or the library's own error."
    ),
    "An engine is a Python object and no ScriptObject: torch.jit.save and AOTInductor's packages fail for a compiled module.",
    "An engine's graph and weights are kept as long as the process lives.",
    "torch_tensorrt up to 2.12 cannot save a compiled module here: its runtime module is not an operator, and export runs it.",
)
