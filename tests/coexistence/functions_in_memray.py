# SPDX-License-Identifier: Apache-2.0
"""`functions_in_memray.py RECORDING FILE`: prints which functions of the file allocated memory."""

import json
import sys

from memray import AllocatorType, FileReader

FREES = {AllocatorType.FREE, AllocatorType.MUNMAP, AllocatorType.PYMALLOC_FREE}
"""Records of these have no stack."""

recording, path = sys.argv[1:]
stacks = {}
with FileReader(recording) as reader:
    for record in reader.get_allocation_records():
        if record.allocator not in FREES and record.stack_id not in stacks:
            stacks[record.stack_id] = record.stack_trace()
functions = {function for stack in stacks.values() for function, file, _ in stack if file == path}
print(json.dumps(sorted(functions)))
