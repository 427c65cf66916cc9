# SPDX-License-Identifier: Apache-2.0
"""Messages of TensorRT, TensorRT-RTX and their ONNX parser, with values where they put them, and what is kept of each."""

MESSAGES = [
    (
        "Could not open file /srv/wanda/krol.onnx",
        "Could not open file ?",
    ),
    (
        "Failed to open the ONNX model at path: /srv/wanda/krol.onnx",
        "Failed to open the ONNX model at path: ?",
    ),
    (
        "hidden_size must be divisible by num_heads. Received hidden_size=17",
        "hidden_size must be divisible by num_heads. Received hidden_size=?",
    ),
    (
        "Unsupported normalization op: wanda",
        "Unsupported normalization op: ?",
    ),
    (
        "Op type Krol is not supported in TensorRT-RTX.",
        "Op type ? is not supported in TensorRT-RTX.",
    ),
    (
        "Input file cannot be found, or is not a regular file: /srv/wanda/krol.onnx",
        "Input file cannot be found, or is not a regular file: ?",
    ),
    (
        "The PRelu operator requires exactly 2 inputs. Current input size = 17",
        "The PRelu operator requires exactly 2 inputs. Current input size = 17",
    ),
    (
        "The boxes tensor must be 3D. The actual rank is 17",
        "The boxes tensor must be 3D. The actual rank is 17",
    ),
    (
        "ScatterND with reduction is not supported.",
        "ScatterND with reduction is not supported.",
    ),
    (
        "Could not create CausalConvWithState plugin.",
        "Could not create ? plugin.",
    ),
    (
        "The input tensor must be in the NCHW format.",
        "The input tensor must be in the NCHW format.",
    ),
    (
        "Resize output shape type must be integral. The actual type is krol",
        "Resize output shape type must be integral. The actual type is ?",
    ),
    (
        "Setting past_key for the Attention node is not supported in TensorRT.",
        "Setting past_key for the Attention node is not supported in TensorRT.",
    ),
    (
        "Invalid Node - krol",
        "Invalid Node - ?",
    ),
    (
        "TensorRT cannot infer the shape of scan output krol",
        "TensorRT cannot infer the shape of scan output ?",
    ),
    (
        'Assertion failed: *tensor && "Failed to add input to the network."',
        'Assertion failed: *tensor && "Failed to add input to the network."',
    ),
    (
        'Assertion failed: convertDtype(onnxDtype.elem_type(), &trtDtype) && "Failed to convert ONNX date type to TensorRT data type."',
        'Assertion failed: convertDtype(onnxDtype.elem_type(), &trtDtype) && "Failed to convert ONNX date type to TensorRT data type."',
    ),
    (
        'In node 17 with name: wanda and operator: Reshape (checkFallbackPluginImporter): UNSUPPORTED_NODE: Assertion failed: creator && "Plugin not found, are the plugin name, version, and namespace correct?"',
        'In node ? with name: ? and operator: Reshape (checkFallbackPluginImporter): UNSUPPORTED_NODE: Assertion failed: creator && "Plugin not found, are the plugin name, version, and namespace correct?"',
    ),
    (
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no optimization profile has been defined.)",
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no optimization profile has been defined.)",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (wanda: out of bounds slice, input dimensions = [1,17]. In validate at /_src/optimizer/slice.cpp:17)",
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (?: out of bounds slice, input dimensions = [1,17]. In validate at /_src/optimizer/slice.cpp:17)",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[wanda.krol...[MATMUL]-[aten_ops.mm.default]-[/krol]]}.)",
        "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node ?)",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([tactic.cpp:1654: enumerate_tactics] Tactic Selection: wanda)",
        "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([?] Tactic Selection: ?)",
    ),
    (
        "UNSUPPORTED_STATE: Skipping tactic 33 due to insufficient memory on requested size of 629145600 detected for tactic 0xa5a46bfbd719d757.",
        "UNSUPPORTED_STATE: Skipping tactic ? due to insufficient memory on requested size of 629145600 detected for tactic ?.",
    ),
    (
        "Skipping tactic 0x0000000000000000 due to exception Assertion mElementWise failed.",
        "Skipping tactic ? due to exception Assertion ? failed.",
    ),
    (
        "Tactic Device request: 600MB Available: 302MB. Device memory is insufficient to use tactic.",
        "Tactic Device request: ? Available: ?. Device memory is insufficient to use tactic.",
    ),
    (
        "Requested amount of GPU memory (629145600 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.",
        "Requested amount of GPU memory (? bytes) could not be allocated. There may not be enough free memory for allocation to succeed.",
    ),
    (
        "[defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
        "[defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
    ),
    (
        "[virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further information)",
        "[virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further information)",
    ),
    (
        "ICudaEngine::loadWeightsAsync requires a non-null CUDA stream.",
        "ICudaEngine::loadWeightsAsync requires a non-null CUDA stream.",
    ),
    (
        "Bias dimension must be equal to the input's second input dimension.",
        "Bias dimension must be equal to the input's second input dimension.",
    ),
    (
        "Block quantization is not supported for DataType wanda",
        "Block quantization is not supported for DataType ?",
    ),
    (
        "Weight streaming must be enabled to use this API.",
        "Weight streaming must be enabled to use this API.",
    ),
    (
        "This engine can stream its weights. Please use setWeightStreamingBudgetV2() to enable it during execution.",
        "This engine can stream its weights. Please use setWeightStreamingBudgetV2() to enable it during execution.",
    ),
    (
        "TRT failed to transform MatrixMultiply to Convolution for layer name wanda krol",
        "TRT failed to transform MatrixMultiply to Convolution for layer name ?",
    ),
    (
        "Compute capability is invalid or not supported.",
        "Compute capability is invalid or not supported.",
    ),
    (
        "Cannot allocate value memory for tensor 'wanda krol'",
        "Cannot allocate value memory for tensor '?'",
    ),
    (
        "Kernel request for shared memory is exceeding the shared memory in the GPU",
        "Kernel request for shared memory is exceeding the shared memory in the GPU",
    ),
    (
        "Steps must have the same rank as the base tensor.",
        "Steps must have the same rank as the base tensor.",
    ),
    (
        "Volume of tensor to be reshaped exceeds range of int64_t.",
        "Volume of tensor to be reshaped exceeds range of int64_t.",
    ),
    (
        "Null callback given for reporting layer time.",
        "Null callback given for reporting layer time.",
    ),
    (
        "RotaryEmbeddingLayer requires 3 or 4 inputs.",
        "RotaryEmbeddingLayer requires 3 or 4 inputs.",
    ),
    (
        "Deterministic reduction is not supported.",
        "Deterministic reduction is not supported.",
    ),
    (
        "Paged Attention does not support V tensor to be ragged",
        "Paged Attention does not support V tensor to be ragged",
    ),
    (
        "Myelin internal error: linearization cannot apply to a loaded session",
        "Myelin internal error: ?",
    ),
    (
        "Failed to infer type for custom layer op wanda",
        "Failed to infer type for custom layer op ?",
    ),
    (
        "Assertion tensorDims.nbDims == regionDims.nbDims failed.",
        "Assertion ? failed.",
    ),
    (
        "Encountered a boolean transpose case that is not supported.",
        "Encountered a boolean transpose case that is not supported.",
    ),
    (
        "Unused Input: wanda",
        "Unused Input: ?",
    ),
    (
        "Detected 17 inputs and 1 output network tensors.",
        "Detected 17 inputs and 1 output network tensors.",
    ),
    (
        "Engine generation completed in 17.5 seconds.",
        "Engine generation completed in ? seconds.",
    ),
    (
        "Total Weights Memory: 42 bytes",
        "Total Weights Memory: ? bytes",
    ),
    (
        "Using an engine plan file across different models of devices is not recommended and is likely to affect performance or even cause errors.",
        "Using an engine plan file across different models of devices is not recommended and is likely to affect performance or even cause errors.",
    ),
    (
        "IExecutionContext::setInputShape: Error Code 3: API Usage Error (Parameter check failed, condition: engineDims.d[i] == dims.d[i]. Static dimension mismatch while setting input shape for krol. Set dimensions are [17,3]. Expected dimensions are [1,3].)",
        "IExecutionContext::setInputShape: Error Code 3: API Usage Error (Parameter check failed, condition: engineDims.d[i] == dims.d[i]. Static dimension mismatch while setting input shape for ?. Set dimensions are [17,3]. Expected dimensions are [1,3].)",
    ),
    (
        "IExecutionContext::enqueueV3: Error Code 3: API Usage Error (Parameter check failed, condition: mContext.profileObliviousBindings.at(profileObliviousIndex) != nullptr. Address is not set for input tensor krol. Call setInputTensorAddress or setTensorAddress before enqueue/execute.)",
        "IExecutionContext::enqueueV3: Error Code 3: API Usage Error (Parameter check failed, condition: mContext.profileObliviousBindings.at(profileObliviousIndex) != nullptr. Address is not set for input tensor ?. Call setInputTensorAddress or setTensorAddress before enqueue/execute.)",
    ),
    (
        "ILogger::log: Serialized Engine Version 17 does not match Current Version 18, Note: Current Version: 17, Serialized Engine Version: 18",
        "ILogger::log: Serialized Engine Version ? does not match Current Version ?, Note: Current Version: ?, Serialized Engine Version: ?",
    ),
    (
        "Distributive independence is not supported when multiple optimization profiles are used.",
        "Distributive independence is not supported when multiple optimization profiles are used.",
    ),
    (
        "Dropout offset tensor must be specified when dropout probability is not 0",
        "Dropout offset tensor must be specified when dropout probability is not 0",
    ),
    (
        "All inputs to concat must have the same extent in all dimensions, except for the axis dimension.",
        "All inputs to concat must have the same extent in all dimensions, except for the axis dimension.",
    ),
    (
        "Number of heads of q must be a multiple of number of heads of k",
        "Number of heads of q must be a multiple of number of heads of k",
    ),
    (
        "Safety scope does not support hardware compatibility.",
        "Safety scope does not support hardware compatibility.",
    ),
    (
        "Op has an input operand that is not marked as an input.",
        "Op has an input operand that is not marked as an input.",
    ),
    (
        "Access type node must be a valid scalar type",
        "Access type node must be a valid scalar type",
    ),
    (
        "Epilogue add must consume the dx output of the norm backward node",
        "Epilogue add must consume the dx output of the norm backward node",
    ),
    (
        "Operation type 17 (concat/resample/signal) is not supported by the FORT native fusion engine.",
        "Operation type ? (?) is not supported by the FORT native fusion engine.",
    ),
]
