# SPDX-License-Identifier: Apache-2.0
"""What Ray calls in each of its processes to set up tracing."""

import functools
import json
import os

import program


@functools.cache
def the_program():
    """The program of this process, as the environment says."""
    return program.Run(*json.loads(os.environ["PROGRAM_ARGUMENTS"]))


def set_up():
    """Set the provider, and enable torchspan where it is asked for."""
    the_program()
