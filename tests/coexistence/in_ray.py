# SPDX-License-Identifier: Apache-2.0
"""`in_ray.py PROGRAM PEER ORDER FOLDER`: the work of the program as a task of Ray, whose hook for tracing is `ray_hook.set_up`."""

import json
import os
import sys
from pathlib import Path

_, _, name, order, folder = sys.argv
os.environ["PROGRAM_ARGUMENTS"] = json.dumps([name, order, folder])
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")])
)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402 - after the environment, which the processes of Ray inherit


@ray.remote(max_retries=0)
def task():
    """The work, in a process of Ray."""
    import ray_hook

    return ray_hook.the_program().work()


ray.init(
    num_cpus=1,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="ERROR",
    _tracing_startup_hook="ray_hook:set_up",
)
print(json.dumps(ray.get(task.remote(), timeout=200)))
ray.shutdown()
