# SPDX-License-Identifier: Apache-2.0
"""Python imports this by itself at the start, because `tacho run` puts its folder first on PYTHONPATH.

It prepares the hook (tacho_hook), takes its folder off sys.path again, and runs the sitecustomize that would have run without
it. Whatever goes wrong here must not be seen by the program.
"""

import os
import sys


def _prepare(here):
    try:
        import tacho_hook

        tacho_hook.prepare(here)
    except Exception as e:
        if os.environ.get("TACHO_HOOK") == "debug":
            raise
        del e


def _run_next(here):
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    # an entry of the path that is not ours may still be this folder under another name (a link)
    rest = [p for p in sys.path if os.path.realpath(p or ".") != here]
    sys.path[:] = rest
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_here = os.path.realpath(os.path.dirname(__file__))
_prepare(_here)
_run_next(_here)
