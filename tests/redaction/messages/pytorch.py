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
        "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: jane",
        "Expected one of cpu, cuda,? device type at start of device string: ?",
    ),
    (
        "new(): invalid data type 'str'",
        "new(): invalid data type '?'",
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
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
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
        "batch1 must be a 3D tensor",
        "batch1 must be a 3D tensor",
    ),
    (
        "add(): argument 'other' (position 2) must be Tensor, not str",
        "add(): argument '?' (position ?) must be Tensor, not str",
    ),
    (
        "empty(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got str\"",
        "empty(): argument '?' failed to unpack the object at pos ? with error \"type must be tuple of ints,but got str\"",
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
        "RuntimeError when making fake tensor call",
        "RuntimeError when making fake tensor call",
    ),
    (
        "Could not guard on data-dependent expression Eq(u0, 0) (unhinted: Eq(u0, 0)).  (Size-like symbols: u0)",
        "Could not guard on data-dependent expression ? (unhinted: ?).  (Size-like symbols: ?)",
    ),
    (
        "Failed to trace builtin operator",
        "Failed to trace builtin operator",
    ),
    (
        "Call to `torch._dynamo.graph_break()`",
        "Call to `torch._dynamo.graph_break()`",
    ),
]
