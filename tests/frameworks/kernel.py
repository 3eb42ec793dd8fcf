# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a notebook's kernel (ipykernel), as a cell would, and prints its last line of output.

usage: kernel.py PROGRAM [ARGUMENT]...
"""

import queue
import sys

from jupyter_client.manager import start_new_kernel

LIMIT = 150  # seconds
CELL = "import runpy, sys\nsys.argv = %r\nruns = runpy.run_path(sys.argv[0], run_name='__main__')"

manager, client = start_new_kernel(startup_timeout=LIMIT)
text, failed = "", None


def take(message):
    global text, failed
    content = message["content"]
    if message["msg_type"] == "stream" and content["name"] == "stdout":
        text += content["text"]
    elif message["msg_type"] == "error":
        failed = "\n".join(content["traceback"])


try:
    client.execute_interactive(CELL % sys.argv[1:], timeout=LIMIT, output_hook=take)
except (TimeoutError, queue.Empty) as error:
    failed = str(error)
client.stop_channels()
manager.shutdown_kernel()
if failed:
    sys.exit(failed)
print(text.strip().splitlines()[-1])
