# SPDX-License-Identifier: Apache-2.0
"""What makes events: in PyTorch, in Torch-TensorRT, in TensorRT, and in the program."""
