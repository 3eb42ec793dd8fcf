# SPDX-License-Identifier: Apache-2.0
"""The checks of tests/gpu/run.sh, by worth: each compares a recording with something that does not come from tacho.

    checks.py KIT OUT [LINE...]

$TACHO_GPU_REHEARSAL is a folder with substitutes for the programs that are recorded; the page says so, and proves nothing about GPUs.
"""
import os
import subprocess
import sys
import time
import traceback

import lines_analysis as analysis
import lines_engine as reference
import lines_frameworks as frameworks
import lines_recorder as recorder
from board import ARCHIVE, REHEARSAL, STARTED, TACHO, Board

# What each line of the page compares, for those that were not reached.
LINES = {
    "1": "kernels of a PyTorch step: count, names and time equal those of torch.profiler, nothing lost",
    "1a": "the same for a CUDA program that counts its own kernels, time compared with CUDA events",
    "1b": "programs with one stream and with two: each call that makes a stream wait has its row, or lies in the time that the file notes",
    "2": "slowdown of a GPT-2 124M step at most 2 %",
    "2b": "cost of a launch, by activity kind",
    "2c": "the same step recorded in other ways, and by torch.profiler, by turns",
    "3": "measured ceilings (bf16 matrix, HBM) and a roofline with points below them",
    "3b": "hardware counters, sampled and counted over steps (needs permission to read GPU counters)",
    "3c": "hardware counters of the ranges inside a step: each has the operations of its shape, together they have those of the step",
    "4": "a GPU-bound, a launch-bound, a loader-bound and a copy-bound job: each is named correctly",
    "5": "torch.profiler inside `tacho run`: both have all kernels of their steps, and the time between is a row",
    "6": "SIGKILL in the middle of a step: what was flushed or written is in the file",
    "7": "energy per step equals NVML's own counter within 2 %",
    "8": "windows: --steps, and tacho capture while the job runs",
    "9": "CUDA graphs: nodes with their launch, as a whole, in windows",
    "9b": "30 million kernels of a replayed CUDA graph: each is recorded or counted, device memory stays below the limit",
    "10": "PyTorch's loader workers that fork after CUDA is up",
    "11": "--gpu-memory: the peak of allocations",
    "12": "NCCL's profiler plugin with one rank",
    "13": "torch.compile with CUDA graphs: as torch.profiler has it",
    "14": "JAX, with its own profiler in between",
    "15": "the reference engine on CUDA: five steps equal those of its plain C within rounding, and a captured step a launched one",
    "16": "the reference engine on CUDA: GPT-2 124M in bf16, ahead of torch.compile with flash attention; where the model of a step is missed",
    "17": "the same for GPT-2 1.5B",
}

# The function, its lines, and the most seconds it may take; together they are less than run.sh waits. First what says whether anything is
# recorded, whether PyTorch's own profiler keeps working and what recording costs; last what takes longest for what it says.
CHECKS = ((recorder.counts, ("1a",), 15), (frameworks.torch_inside, ("5",), 30), (frameworks.torch_loop, ("1",), 35), (frameworks.slowdown, ("2", "2c"), 80),
          (reference.steps, ("15",), 20), (reference.small, ("16",), 70),
          (recorder.streams, ("1b",), 10), (recorder.graphs, ("9",), 15), (recorder.kill, ("6",), 10), (recorder.capture, ("8",), 15), (frameworks.loader, ("10",), 15),
          (analysis.verdicts, ("4",), 15), (recorder.memory, ("11",), 10), (analysis.energy, ("7",), 10), (analysis.roofline, ("3",), 15),
          (recorder.cost, ("2b",), 15), (reference.large, ("17",), 40), (frameworks.torch_compile, ("13",), 40), (frameworks.nccl, ("12",), 15),
          (frameworks.jax_loop, ("14",), 20), (analysis.counters, ("3b", "3c"), 20), (recorder.replay, ("9b",), 10))
DOCTOR_S = 10
LIMIT_S = 535
assert DOCTOR_S + sum(c[2] for c in CHECKS) <= LIMIT_S
assert sorted(n for c in CHECKS for n in c[1]) == sorted(LINES)


def order(number):
    return int(number.rstrip("abc")), number


def page_of(board):
    """All of docs/gpu-results.md. A line of the doctor may end in blanks; no line of the page does."""
    text = ["# Results on a GPU", "", "The results of `tests/gpu/run.sh` on the last machine with a GPU. The script writes this page; `make gpu-tests` "
            "builds what the\nscript takes to that machine.", ""]
    if REHEARSAL:
        text += ["> **A rehearsal with substitutes for driver, CUPTI and programs. No GPU was used, and nothing here was measured on one.**", ""]
    elif not board.rows:
        text += ["None of these checks has been run on a GPU yet.", ""]
    text += [f"{board.version}.", "", "| line | what | measured | | when |", "|---|---|---|---|---|"]
    for number in sorted(LINES, key=order):
        mine = [r for r in board.rows if r[0] == number] or [[number, LINES[number], "not yet run on a GPU", "open", ""]]
        text += ["| " + " | ".join(str(x).replace("|", "/").replace("\n", " ") for x in r) + " |" for r in mine]
    if board.doctor:
        text += ["", "Driver, versions and what this machine permits, as `tacho doctor` says:", "", "```", board.doctor, "```"]
    return "".join(line.rstrip() + "\n" for line in "\n".join(text).split("\n"))


def libraries():
    """The folders of PyTorch's CUDA libraries: work.cu looks for cuBLAS and CUPTI where the loader looks."""
    found = subprocess.run([sys.executable, "-c", "import nvidia, glob, os\nfor p in nvidia.__path__:\n print(*glob.glob(p + '/*/lib'), sep='\\n')"],
                           capture_output=True, text=True, check=False).stdout.split()
    os.environ["LD_LIBRARY_PATH"] = ":".join([x for x in (os.environ.get("LD_LIBRARY_PATH"),) if x] + found)


def carry_out(board, check, numbers, seconds):
    board.drop(numbers)
    began = time.monotonic()
    board.deadline = min(began + seconds, STARTED + LIMIT_S)
    board.said.append(f"\n==== {check.__name__}: lines {', '.join(numbers)}\n")
    try:
        check(board)
    except Exception as error:  # one check that breaks must not cost the others
        board.said.append(traceback.format_exc())
        board.row(numbers[0], check.__name__, f"{type(error).__name__}: {error}", "FAIL")
    for number in numbers:
        if not any(r[0] == number for r in board.rows):
            board.row(number, LINES[number], "no answer: see the log", "FAIL")
    board.end_check(check.__name__, numbers, time.monotonic() - began)


def warm_up():
    """Reads PyTorch from the disk beside the first check: on a machine that has just started that takes as long as the check."""
    return subprocess.Popen([sys.executable, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    board = Board()
    again = set(sys.argv[3:])
    if again - set(LINES):
        print(f"no such line: {', '.join(sorted(again - set(LINES)))}; there are {', '.join(sorted(LINES, key=order))}")
        return 2
    libraries()
    warming = None if REHEARSAL else warm_up()
    board.deadline = STARTED + DOCTOR_S
    doctor = board.run([TACHO, "doctor"])[1]
    board.doctor = doctor[doctor.find("\ngpu\n"):].strip() if "\ngpu\n" in doctor else ""
    board.write(page_of(board))
    chosen = [c for c in CHECKS if (again & set(c[1]) if again else c[0].__name__ not in board.done)]
    for check, numbers, seconds in chosen:
        if again:  # they share what there is
            seconds = max(seconds, (LIMIT_S - DOCTOR_S) // len(chosen))
        if STARTED + LIMIT_S - time.monotonic() < 5:
            break
        carry_out(board, check, numbers, seconds)
        board.write(page_of(board))
    failed, left = sum(r[3] == "FAIL" for r in board.rows), len(CHECKS) - len(board.done)
    print(f"\n{len(board.rows)} rows, {failed} failed, {sum(r[3] == 'open' for r in board.rows)} open, {left} checks left; {ARCHIVE}")
    if warming:
        warming.kill()
    board.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
