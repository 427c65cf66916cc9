# SPDX-License-Identifier: Apache-2.0
"""Messages of Torch-TensorRT 2.14, with values where it puts them: what the vocabulary keeps of each, and what the table does."""

MESSAGES = [
    (
        "Unsupported target type for device conversion",
        "Unsupported target type for device conversion",
        "Unsupported target type for device conversion",
    ),
    (
        "Setting GPU id to 0 for device because device 0 manages DLA on AGX Platforms",
        "Setting GPU id to ? for device because device ? manages DLA on AGX Platforms",
        "Setting GPU id to 0 for device because device 0 manages DLA on AGX Platforms",
    ),
    (
        "Profile at index 17 must be a dict with keys 'min_shape', 'opt_shape', 'max_shape'",
        "Profile at index ? must be a dict with keys 'min_shape', 'opt_shape', 'max_shape'",
        "Profile at index ? must be a dict with keys 'min_shape', 'opt_shape', 'max_shape'",
    ),
    (
        "Profile at index 17 field 'wanda_krol' must be a List, tuple or torch.Size, found <class 'wanda.Krol'>",
        "Profile at index ? '?' must be a List, tuple or torch.Size, found <class '?'>",
        "Profile at index ? field '?' must be a List, tuple or torch.Size, found <class '?'>",
    ),
    (
        "Input shape specifications for inputs are required to be a List, tuple or torch.Size, found type:  for min_shape",
        "Input shape specifications for inputs are required to be a List, tuple or torch.Size, found type: for min_shape",
        "Input shape specifications for inputs are required to be a List, tuple or torch.Size, found type:  for min_shape",
    ),
    (
        "Capturing TensorRT API calls is only supported on Linux, therefore ignoring the capture_tensorrt_api_recording setting for wanda_krol",
        "Capturing TensorRT API calls is only supported on ?, therefore ignoring the capture_tensorrt_api_recording setting for ?",
        "Capturing TensorRT API calls is only supported on Linux, therefore ignoring the capture_tensorrt_api_recording setting for ?",
    ),
    (
        "Not all inputs provided are torch.Tensor or torch_tensorrt.Input objects. Please provide inputs of a valid type",
        "Not all inputs provided are torch.Tensor or ? objects. Please provide inputs of a valid type",
        "Not all inputs provided are torch.Tensor or torch_tensorrt.Input objects. Please provide inputs of a valid type",
    ),
    (
        "output_format='executorch' requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
        "output_format='executorch' requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
        "output_format='executorch' requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
    ),
    (
        "backend_config= is only used with output_format='executorch' and will be ignored for output_format='wanda_krol'.",
        "backend_config= is only used with output_format='executorch' and will be ignored for output_format='?'.",
        "backend_config= is only used with output_format='executorch' and will be ignored for output_format='?'.",
    ),
    (
        "Requested using the FX frontend but the FX frontend is not available in this build of Torch-TensorRT",
        "Requested using the FX frontend but the FX frontend is not available in this build of Torch-TensorRT",
        "Requested using the FX frontend but the FX frontend is not available in this build of Torch-TensorRT",
    ),
    (
        "convert_method_to_trt_engine call is not supported for ir=torch_compile",
        "convert_method_to_trt_engine call is not supported for ir=torch_compile",
        "convert_method_to_trt_engine call is not supported for ir=torch_compile",
    ),
    (
        "Module has TensorRT engine(s) with aliased I/O (e.g. KV-cache), but output_format='aot_inductor' does not declare those aliased outputs as buffer mutations. The saved program's signature will not reflect the in-place update.",
        "Module has TensorRT engine(s) with aliased I/O (e.g. KV-cache), but output_format='aot_inductor' does not declare those aliased outputs as buffer mutations. The saved program's signature will not reflect the in-place update.",
        "Module has TensorRT engine(s) with aliased I/O (e.g. KV-cache), but output_format='aot_inductor' does not declare those aliased outputs as buffer mutations. The saved program's signature will not reflect the in-place update.",
    ),
    (
        "Provided unsupported destination type for device type conversion",
        "Provided unsupported destination type for device type conversion",
        "Provided unsupported destination type for device type conversion",
    ),
    (
        "Unsupported tensorrt dtype",
        "Unsupported tensorrt dtype",
        "Unsupported tensorrt dtype",
    ),
    (
        "Provided an unsupported tensor format for tensor, got: <class 'wanda.Krol'>",
        "Provided an unsupported tensor format for tensor, got: <class '?'>",
        "Provided an unsupported tensor format for tensor, got: ?",
    ),
    (
        "TensorRT-LLM plugin for NCCL is not available",
        "TensorRT-LLM plugin for NCCL is not available",
        "TensorRT-LLM plugin for NCCL is not available",
    ),
    (
        "Wheel file not found at /srv/wanda/krol.engine: wanda's krol went away",
        "Wheel file not found at ?: ? went away",
        "Wheel file not found at ?: ?",
    ),
    (
        "Local file write error: wanda's krol went away",
        "Local file write error: ? went away",
        "Local file write error: ?",
    ),
    (
        "Cannot create NCCL symlink at wanda_krol (permission denied). Please run: ln -sf libnccl.so.2 wanda_krol",
        "Cannot create NCCL symlink at ? (permission denied). Please run: ? -?",
        "Cannot create NCCL symlink at ? (permission denied). Please run: ln -sf libnccl.so.2 ?",
    ),
    (
        "Invalid input type <class 'wanda.Krol'> encountered in parse_complex_tensor_structs parsing.",
        "Invalid input type <class '?'> encountered in parse_complex_tensor_structs parsing.",
        "Invalid input type <class '?'> encountered in parse_complex_tensor_structs parsing.",
    ),
    (
        "`immutable_weights` must be False when `refit_identical_engine_weights` is True.",
        "`immutable_weights` must be False when `refit_identical_engine_weights` is True.",
        "`immutable_weights` must be False when `refit_identical_engine_weights` is True.",
    ),
    (
        "Conversion of module wanda_krol not currently fully supported or convertible!",
        "Conversion of module ? not currently fully supported or convertible!",
        "Conversion of module ? not currently fully supported or convertible!",
    ),
    (
        "wanda_krol Input.min_shape=1 but the exported program's min is 2 (PyTorch 0/1 specialization -- Dim(min=1) is recorded as min=2). The compiled engine's min will be 2.",
        "? Input.min_shape=? but the exported program's min is ? (PyTorch ? specialization -- Dim(min=?) is recorded as min=?). The compiled engine's min will be ?.",
        "? Input.min_shape=1 but the exported program's min is 2 (PyTorch 0/1 specialization -- Dim(min=1) is recorded as min=2). The compiled engine's min will be 2.",
    ),
    (
        "Expected at least 17 trailing outputs to pair with copy-back buffers wanda_krol, found only 17.",
        "Expected at least ? trailing outputs to pair with copy-back buffers ?, found only ?.",
        "Expected at least ? trailing outputs to pair with copy-back buffers ?, found only ?.",
    ),
    (
        "Aliased output wanda_krol references input wanda_krol, which is not an engine input binding; leaving the mutation undeclared.",
        "Aliased output ? references input ?, which is not an engine input binding; leaving the mutation undeclared.",
        "Aliased output ? references input ?, which is not an engine input binding; leaving the mutation undeclared.",
    ),
    (
        "The type of graph module is not supported for refitting or two compiled modules do not match.",
        "The type of graph module is not supported for refitting or ? compiled modules do not match.",
        "The type of graph module is not supported for refitting or two compiled modules do not match.",
    ),
    (
        "strip_engine_weights=True is not supported for torch.compile(). It will be set to False automatically.",
        "strip_engine_weights=True is not supported for torch.compile(). It will be set to False automatically.",
        "strip_engine_weights=True is not supported for torch.compile(). It will be set to False automatically.",
    ),
    (
        "Validated accesses to the Converter registry can only be made with node inputs. Try accessing the registry with a node or use get_unvalidated to access without node validation.",
        "Validated accesses to the Converter registry can only be made with node inputs. Try accessing the registry with a node or use get_unvalidated to access without node validation.",
        "Validated accesses to the Converter registry can only be made with node inputs. Try accessing the registry with a node or use get_unvalidated to access without node validation.",
    ),
    (
        "strip_engine_weights will be ignored.",
        "strip_engine_weights will be ignored.",
        "strip_engine_weights will be ignored.",
    ),
    (
        "Refit feature is not available, so the engine will not be reused from cache",
        "Refit feature is not available, so the engine will not be reused from cache",
        "Refit feature is not available, so the engine will not be reused from cache",
    ),
    (
        "Meta information of input is missing. Unable to validate GLU's split dimension, falling back to PyTorch operation.",
        "Meta information of input is missing. Unable to validate ? split dimension, falling back to PyTorch operation.",
        "Meta information of input is missing. Unable to validate GLU's split dimension, falling back to PyTorch operation.",
    ),
    (
        "to_trt_weights can only be called on torch.Tensor, got an object of type: <class 'wanda.Krol'>",
        "to_trt_weights can only be called on torch.Tensor, got an object of type: <class '?'>",
        "to_trt_weights can only be called on torch.Tensor, got an object of type: <class '?'>",
    ),
    (
        "Detected argument at index 17 had type <class 'wanda.Krol'> which is not one of the approved types <class 'wanda.Krol'>",
        "Detected argument at index ? had type <class '?'> which is not ? of the approved types <class '?'>",
        "Detected argument at index ? had type <class '?'> which is not one of the approved types ?",
    ),
    (
        "Convolution wanda_krol has bias of type <class 'wanda.Krol'>, Expected Torch Tensor or TRT Tensor",
        "Convolution ? has bias of type <class '?'>, Expected Torch Tensor or TRT Tensor",
        "Convolution ? has bias of type <class '?'>, Expected Torch Tensor or TRT Tensor",
    ),
    (
        "Both lhs_val and rhs_val are int or float, at least one of them should be a tensor",
        "Both lhs_val and rhs_val are int or float, at least ? of them should be a tensor",
        "Both lhs_val and rhs_val are int or float, at least one of them should be a tensor",
    ),
    (
        "The WORLD_SIZE env variable is not set in distributed environment",
        "The WORLD_SIZE env variable is not set in distributed environment",
        "The WORLD_SIZE env variable is not set in distributed environment",
    ),
    (
        "p should between [0, inf], currently p=wanda_krol is not supported!",
        "? should between [?, inf], currently ?=? is not supported!",
        "p should between [0, inf], currently p=? is not supported!",
    ),
    (
        "quantize converter received an input of <class 'wanda.Krol'> type. Supported types: float32 | float16 | bfloat16",
        "quantize converter received an input of <class '?'> type. Supported types: float32 | float16 | bfloat16",
        "quantize converter received an input of ? type. Supported types: float32 | float16 | bfloat16",
    ),
    (
        "slice_scatter: 17 of type 17 is not a valid dim for a rank-17 input; dim must be a Python int in [-17, 17)",
        "slice_scatter: ? of type ? is not a valid dim for a ? input; dim must be a Python int in [-?)",
        "slice_scatter: ? of type ? is not a valid dim for a rank-17 input; dim must be a Python int in [-17, 17)",
    ),
    (
        "unsqueeze received input wanda_krol that is not part of the TensorRT region!",
        "unsqueeze received input ? that is not part of the TensorRT region!",
        "unsqueeze received input ? that is not part of the TensorRT region!",
    ),
    (
        "libtensorrt_shim.so is not found in the /srv/wanda/krol.engine directory, therefore capturing TensorRT API recording is not supported",
        "libtensorrt_shim.so is not found in the ? directory, therefore capturing TensorRT API recording is not supported",
        "libtensorrt_shim.so is not found in the ? directory, therefore capturing TensorRT API recording is not supported",
    ),
    (
        "correction term was non-positive, got: wanda_krol",
        "correction term was non-positive, got: ?",
        "correction term was non-positive, got: ?",
    ),
    (
        "Unknown constant-fold exclusion rule IDs: 17. Available rule IDs: [17]",
        "Unknown constant-fold exclusion rule IDs: ?. Available rule IDs: [?]",
        "Unknown constant-fold exclusion rule IDs: ?. Available rule IDs: [?]",
    ),
    (
        "Failed to get the user specified name of the node wanda_krol because wanda's krol went away. Please file a bug with Torch-TensorRT.",
        "Failed to get the user specified name of the node ? because ? went away. Please file a bug with Torch-TensorRT.",
        "Failed to get the user specified name of the node ? because ?. Please file a bug with Torch-TensorRT.",
    ),
    (
        "CPU memory budget is too small to compile the model. CPU memory budget: wanda_krol MB, Model size: 17 MB. Consider setting cpu_memory_budget to a larger value.",
        "CPU memory budget is too small to compile the model. CPU memory budget: ? MB, Model size: ? MB. Consider setting cpu_memory_budget to a larger value.",
        "CPU memory budget is too small to compile the model. CPU memory budget: ? MB, Model size: ? MB. Consider setting cpu_memory_budget to a larger value.",
    ),
    (
        "Invalid input type <class 'wanda.Krol'> encountered in the input. Allowed input types: wanda_krol",
        "Invalid input type <class '?'> encountered in the input. Allowed input types: ?",
        "Invalid input type <class '?'> encountered in the input. Allowed input types: ?",
    ),
    (
        "Dimension (17) of new input tensor is not the range of supported shapes (saw: (wanda_krol), expected: [wanda_krol, wanda_krol])",
        "Dimension (?) of new input tensor is not the range of supported shapes (saw: (?), expected: [?])",
        "Dimension (17) of new input tensor is not the range of supported shapes (saw: (?), expected: [?, ?])",
    ),
    (
        "TensorRT engine was not built to target the loaded TensorRT runtime platform (target: wanda_krol, current: wanda_krol)",
        "TensorRT engine was not built to target the loaded TensorRT runtime platform (target: ?, current: ?)",
        "TensorRT engine was not built to target the loaded TensorRT runtime platform (target: ?, current: ?)",
    ),
    (
        "Failed to set weight streaming budget to 17",
        "Failed to set weight streaming budget to ?",
        "Failed to set weight streaming budget to ?",
    ),
    (
        "Optimization profile must be an integer index, got <class 'wanda.Krol'>",
        "Optimization profile must be an integer index, got <class '?'>",
        "Optimization profile must be an integer index, got <class '?'>",
    ),
    (
        "Unable to deserialize program target device information: wanda_krol",
        "Unable to deserialize program target device information: ?",
        "Unable to deserialize program target device information: ?",
    ),
    (
        "Could not fully evaluate symbolic dim wanda_krol with symbol values wanda_krol (unresolved free symbols remain).",
        "Could not fully evaluate symbolic dim ? with symbol values ? (unresolved free symbols remain).",
        "Could not fully evaluate symbolic dim ? with symbol values ? (unresolved free symbols remain).",
    ),
    (
        "All inputs declaring optimization profiles must declare the same number of profiles, found both 17 and 17.",
        "All inputs declaring optimization profiles must declare the same number of profiles, found both ? and ?.",
        "All inputs declaring optimization profiles must declare the same number of profiles, found both ? and ?.",
    ),
    (
        "wanda_krol is not a supported dtype",
        "? is not a supported dtype",
        "? is not a supported dtype",
    ),
    (
        "ExecuTorch export requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
        "ExecuTorch export requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
        "ExecuTorch export requires the Torch-TensorRT runtime (torch_tensorrt_runtime). Reinstall torch_tensorrt with the runtime extension.",
    ),
    (
        "constant_methods keys must be valid Python identifiers: 17",
        "constant_methods keys must be valid Python identifiers: ?",
        "constant_methods keys must be valid Python identifiers: ?",
    ),
    (
        "wanda_krol contains 17 TRT engine calls. Each one becomes its own delegate, so the boundary overhead is paid that many times.",
        "? contains ? TRT engine calls. Each ? becomes its own delegate, so the boundary overhead is paid that many times.",
        "? contains ? TRT engine calls. Each one becomes its own delegate, so the boundary overhead is paid that many times.",
    ),
    (
        "Staged GraphModule wanda_krol changed node identities.",
        "Staged GraphModule ? changed node identities.",
        "Staged GraphModule ? changed node identities.",
    ),
    (
        "TensorRT ExecuTorch backend: engine inputs wanda_krol are not delegate runtime placeholders; cannot determine their argument position.",
        "TensorRT ExecuTorch backend: engine inputs ? are not delegate runtime placeholders; cannot determine their argument position.",
        "TensorRT ExecuTorch backend: engine inputs ? are not delegate runtime placeholders; cannot determine their argument position.",
    ),
    (
        "expected exactly 1 engine node in partition 17, found 17",
        "expected exactly ? engine node in partition ?, found ?",
        "expected exactly 1 engine node in partition ?, found ?",
    ),
    (
        "Unsupported Geometry: wanda_krol",
        "Unsupported Geometry: ?",
        "Unsupported Geometry: ?",
    ),
    (
        "ScalarInput wanda_krol: py_type must be float, int, or bool, got <class 'wanda.Krol'>",
        "ScalarInput ?: py_type must be float, int, or bool, got <class '?'>",
        "ScalarInput ?: py_type must be float, int, or bool, got ?",
    ),
]
