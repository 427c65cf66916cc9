# SPDX-License-Identifier: Apache-2.0
"""Messages that PyTorch 2.14 raised, and what is kept of each."""

MESSAGES = [
    (
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    ),
    (
        "The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1",
        "The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1",
    ),
    (
        "Tensor on device cpu is not on the expected device meta!",
        "Tensor on device ? is not on the expected device ?!",
    ),
    (
        "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.",
        "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number ? in the list.",
    ),
    (
        "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
        "stack expects each tensor to be equal size, but got [2] at entry ? and [3] at entry ?",
    ),
    (
        "shape '[4]' is invalid for input of size 6",
        "shape '[4]' is invalid for input of size 6",
    ),
    (
        "shape '[4, 2]' is invalid for input of size 6",
        "shape '[4, 2]' is invalid for input of size 6",
    ),
    (
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
    ),
    (
        "Given groups=1, weight of size [4, 5, 3, 3], expected input[1, 3, 8, 8] to have 5 channels, but got 3 channels instead",
        "Given groups=?, weight of size [4, 5, 3, 3], expected input[1, 3, 8, 8] to have 5 channels, but got 3 channels instead",
    ),
    (
        "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
        "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
    ),
    (
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3]",
        "Expected 3D (unbatched) or 4D (batched) input to ?, but got input of size: [3]",
    ),
    (
        "expected m1 and m2 to have the same dtype, but got: int != float",
        "expected m1 and m2 to have the same dtype, but got: int != float",
    ),
    (
        "expected m1 and m2 to have the same dtype, but got: c10::Half != float",
        "expected m1 and m2 to have the same dtype, but got: c10::Half != float",
    ),
    (
        "input.size(-1) must be equal to input_size. Expected 3, got 7",
        "input.size(-1) must be equal to input_size. Expected 3, got 7",
    ),
    (
        "index out of range in self",
        "index out of range in self",
    ),
    (
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)",
        "Expected tensor for argument #? '?' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for ?)",
    ),
    (
        "index 7 is out of bounds for dimension 0 with size 3",
        "index ? is out of bounds for dimension 0 with size 3",
    ),
    (
        "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
        "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    ),
    (
        "too many indices for tensor of dimension 1",
        "too many indices for tensor of dimension 1",
    ),
    (
        "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        "\"?\" not implemented for 'Long'",
    ),
    (
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
    ),
    (
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0.  Target sizes: [4].  Tensor sizes: [3]",
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0.  Target sizes: [4].  Tensor sizes: [3]",
    ),
    (
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 1 is not equal to len(dims) = 2",
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 1 is not equal to len(dims) = 2",
    ),
    (
        "index 9 is out of bounds for dimension 0 with size 3",
        "index ? is out of bounds for dimension 0 with size 3",
    ),
    (
        "a Tensor with 3 elements cannot be converted to Scalar",
        "a Tensor with 3 elements cannot be converted to Scalar",
    ),
    (
        "Boolean value of Tensor with more than one value is ambiguous",
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
    (
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ),
    (
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "element ? of tensors does not require grad and does not have a grad_fn",
    ),
    (
        "only Tensors of floating point dtype can require gradients",
        "only Tensors of floating point dtype can require gradients",
    ),
    (
        "Error(s) in loading state_dict for Linear:",
        "Error(s) in loading state_dict for ?:",
    ),
    (
        'Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "wanda". ',
        "Error(s) in loading state_dict for ?:\n\tMissing key(s) in state_dict: ?.",
    ),
    (
        'Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "wanda". \n\tsize mismatch for krol: copying a param with shape torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([2, 2]).',
        "Error(s) in loading state_dict for ?:\n\tUnexpected key(s) in state_dict: ?. \n\tsize mismatch for ?: copying a param with shape torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([2, 2]).",
    ),
    (
        "'Linear' object has no attribute 'nosuchthing'",
        "'?' object has no attribute '?'",
    ),
    (
        'buffer name can\'t contain "."',
        'buffer name can\'t contain "."',
    ),
    (
        "in_channels must be divisible by groups",
        "in_channels must be divisible by groups",
    ),
    (
        "embed_dim must be divisible by num_heads",
        "embed_dim must be divisible by num_heads",
    ),
    (
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
    ),
    (
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got 4D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got acme)",
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got 4D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got ?)",
    ),
    (
        "No such file or directory",
        "No such file or directory",
    ),
    (
        "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: jane",
        "Expected one of cpu, cuda,? device type at start of device string: ?",
    ),
    (
        "new(): invalid data type 'str'",
        "new(): invalid data type '?'",
    ),
    (
        "zeros: Dimension size must be non-negative.",
        "?: Dimension size must be non-negative.",
    ),
    (
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4611686018427387904 bytes. Error code 12 (Cannot allocate memory)",
        "[enforce fail at ?] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate ? bytes. Error code ? (Cannot allocate memory)",
    ),
    (
        "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.",
        "linalg.inv: The diagonal element ? is zero, the inversion could not be completed because the input matrix is singular.",
    ),
    (
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order 1 is not positive-definite).",
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order ? is not positive-definite).",
    ),
    (
        "'_OpNamespace' 'aten' object has no attribute 'nosuch'",
        "'_OpNamespace' '?' object has no attribute '?'",
    ),
    (
        "The underlying op of 'aten.add' has no overload name 'janedoe'",
        "The underlying op of 'aten.add' has no overload name '?'",
    ),
    (
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
    ),
    (
        "probability tensor contains either `inf`, `nan` or element < 0",
        "probability tensor contains either `inf`, `nan` or element < 0",
    ),
    (
        "Target 7 is out of bounds.",
        "Target ? is out of bounds.",
    ),
    (
        "expected target dtype to be Long or Byte, but got Float",
        "expected target dtype to be Long or Byte, but got Float",
    ),
    (
        "Padding size 2 is not supported for 1D input tensor.",
        "Padding size 2 is not supported for 1D input tensor.",
    ),
    (
        "einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3",
        "einsum(): subscript ? has size 4 for operand ? which does not broadcast with previously seen size 3",
    ),
    (
        "The provided filename /srv/alice/x.pt does not exist",
        "The provided filename ? does not exist",
    ),
    (
        "batch1 must be a 3D tensor",
        "batch1 must be a 3D tensor",
    ),
    (
        "add(): argument 'other' (position 2) must be Tensor, not str",
        "add(): argument '?' (position ?) must be Tensor, not str",
    ),
    (
        "module 'torch' has no attribute 'frobnicate'",
        "module 'torch' has no attribute '?'",
    ),
    (
        "empty(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got str\"",
        "empty(): argument '?' failed to unpack the object at pos ? with error \"type must be tuple of ints,but got str\"",
    ),
    (
        "int is not a Module subclass",
        "int is not a Module subclass",
    ),
    (
        'Constraints violated (batch)! For more information, run with TORCH_LOGS="+dynamic".',
        'Constraints violated (?)! For more information, run with TORCH_LOGS="+dynamic".',
    ),
    (
        "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like symbols: none)",
        "Could not guard on data-dependent expression ? (unhinted: ?).  (Size-like symbols: ?)",
    ),
    (
        "Data-dependent branching",
        "Data-dependent branching",
    ),
    (
        'Constraints violated (batch, other)! For more information, run with TORCH_LOGS="+dynamic".',
        'Constraints violated (?)! For more information, run with TORCH_LOGS="+dynamic".',
    ),
    (
        "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names ['x'] of `inputs`, but here they are ['z']. Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`. For more information about this error, see: https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation",
        "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names [?] of `inputs`, but here they are [?].?",
    ),
    (
        "expected dynamic_shape to be None, int, or _DimHint for _IntWrapper, got <class 'dict'>",
        "expected dynamic_shape to be None, int, or _DimHint for _IntWrapper, got <class 'dict'>",
    ),
    (
        "RuntimeError when making fake tensor call",
        "RuntimeError when making fake tensor call",
    ),
    (
        "Could not guard on data-dependent expression Eq(u0, 0) (unhinted: Eq(u0, 0)).  (Size-like symbols: u0)",
        "Could not guard on data-dependent expression ? (unhinted: ?).  (Size-like symbols: ?)",
    ),
    (
        "Expected `mod` to be an instance of `torch.nn.Module`, got <class 'function'>.",
        "Expected `mod` to be an instance of `torch.nn.Module`, got <class 'function'>.",
    ),
    (
        "Failed to trace builtin operator",
        "Failed to trace builtin operator",
    ),
    (
        "Call to `torch._dynamo.graph_break()`",
        "Call to `torch._dynamo.graph_break()`",
    ),
    (
        "Invalid backend: 'alice'. See `torch._dynamo.list_backends()` for available backends.",
        "Invalid backend: ?. See `torch._dynamo.list_backends()` for available backends.",
    ),
    (
        "Unrecognized mode=alice, should be one of: default, lite, reduce-overhead, max-autotune-no-cudagraphs, max-autotune",
        "Unrecognized mode=?, should be one of: default, ?",
    ),
    (
        "symbolically traced variables cannot be used as inputs to control flow",
        "symbolically traced variables cannot be used as inputs to control flow",
    ),
    (
        "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors",
        "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors",
    ),
    (
        "undefined value nosuch:",
        "undefined value ?:",
    ),
    (
        "infer_schema(func): Parameter y must have a type annotation. Got func with signature (x: torch.Tensor, y))",
        "infer_schema(func): Parameter ? must have a type annotation. Got func with signature (?)",
    ),
]
