# SPDX-License-Identifier: Apache-2.0
"""The checks of tests/gpu/run.sh: each compares a recording with something that does not come from tacho.

The table goes to standard output and, with date and versions, to OUT/gpu-results.md, which is docs/gpu-results.md anew. What every
command said goes to OUT/log.txt; of checks that failed it is also printed below the table.
"""
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import traceback

BUILD, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
TACHO, WORK = os.path.join(BUILD, "tacho"), os.path.join(BUILD, "tests/gpu/work")
STARTED = time.monotonic()
TIMED_OUT = 124
ROWS = []  # (number, what, measured, verdict)
LOG = []  # what the commands of the check that runs now have said
deadline = STARTED  # of the check that runs now


def row(number, what, measured, verdict):
    ROWS.append((number, what, measured, verdict))
    print(f"{number:>4}  {verdict:<8} {what}: {measured}", flush=True)


def run(command, env=None):
    """Exit status (124: out of time), standard output and error. Whatever it started ends with it."""
    began = time.monotonic()
    with subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", start_new_session=True) as child:
        try:
            out, err = child.communicate(timeout=max(1, deadline - began))
            status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            status, err = TIMED_OUT, err + f"\nout of time after {time.monotonic() - began:.0f} s\n"
    said = [f"$ {' '.join(command)}" + "".join(f" {k}={v}" for k, v in (env or {}).items()),
            f"status {status}, {time.monotonic() - began:.1f} s"]
    for text in (err, out):
        said += text.rstrip().splitlines() if len(text) < 6000 else [text[:3000], "...", text[-3000:]]
    LOG.append("\n".join(said) + "\n")
    return status, out, err


def books(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {}


def record(name, command, options=(), env=None):
    """Runs a command under tacho. Returns (path of the file, the command's own books, exit status, messages)."""
    path = os.path.join(OUT, name + ".tacho")
    if os.path.exists(path):
        os.unlink(path)
    status, out, err = run([TACHO, "run", "--no-peak", "--no-counters", "-o", path, *options, "--", *command], env)
    LOG.append("losses: " + json.dumps(ask(path, "SELECT source, reason, count FROM loss")) + "\n")
    return path, books(out), status, err


def ask(path, query):
    done = subprocess.run([TACHO, "sql", "--json", path, query], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else []


def kernels(path, window=None):
    """Kernels of a file, or those that began in [from, to) of CLOCK_MONOTONIC."""
    inside = f"AND start BETWEEN {int(window[0])} AND {int(window[1])}" if window else ""
    rows = ask(path, "SELECT count(*) AS n, coalesce(sum(dur), 0) / 1e6 AS ms FROM slice JOIN string ON string.id = category "
                     f"WHERE text = 'kernel' {inside}")
    return rows[0] if rows else {"n": 0, "ms": 0}


def kernel_names(path, window):
    rows = ask(path, "SELECT DISTINCT n.text AS name FROM slice JOIN string c ON c.id = category JOIN string n ON n.id = name "
                     f"WHERE c.text = 'kernel' AND start BETWEEN {int(window[0])} AND {int(window[1])}")
    return {r["name"] for r in rows}


def losses(path):
    return ask(path, "SELECT source, reason, count FROM loss WHERE source IN ('agent', 'cupti')")


def near(a, b, share):
    return bool(a and b) and abs(a - b) <= share * abs(b)


def own_job(number, name, mode, steps, count):
    path, own, status, err = record(name, [WORK, mode, str(steps), str(count)], ["--overhead", "0"])
    if status:
        row(number, f"{mode} job", f"status {status}: " + "; ".join(x for x in err.splitlines() if not x.startswith("tacho:"))[:200], "FAIL")
        return None, own
    return path, own


def check_counts():
    path, own = own_job("1a", "gpu", "gpu", 40, 50)
    if not path:
        return
    k, lost = kernels(path), losses(path)
    row("1a", "kernels of a CUDA program", f"{k['n']} of {own['kernels']}, lost {lost or 'nothing'}",
        "ok" if k["n"] == own["kernels"] or lost else "FAIL")
    row("1a", "their time, beside CUDA events", f"{k['ms']:.3f} ms of {own['device_ms']:.3f} ms",
        "ok" if near(k["ms"], own["device_ms"], 0.02) else "FAIL")


def torch_runs():
    command = [sys.executable, os.path.join(HERE, "torch_loop.py")]
    plain = books(run([*command, "plain", "30"])[1])
    if "step_ms" not in plain:
        why = plain.get("missing")
        for number in ("1", "2", "5"):
            row(number, "PyTorch", f"not run: no {why}" if why else "the loop does not run here, without tacho", "open" if why else "FAIL")
        return
    own = books(run([*command, "profiler", "30"])[1])
    path, traced, status, err = record("torch", [*command, "plain", "30"], ["--overhead", "0"])
    if status or "window_ns" not in traced or "names" not in own:
        for number in ("1", "2", "5"):
            row(number, "PyTorch", f"status {status}: {err.strip()[-200:]}", "FAIL")
        return
    k, names, lost = kernels(path, traced["window_ns"]), kernel_names(path, traced["window_ns"]), losses(path)
    good = near(k["n"], own["kernels"], 0.01) and near(k["ms"], own["kernel_ms"], 0.01) and len(names) == len(own["names"])
    theirs = set(own["names"])
    LOG.append("names of one side only: " + json.dumps({"tacho": sorted(names - theirs), "torch": sorted(theirs - names)}) + "\n")
    row("1", "kernels as torch.profiler has them", f"{k['n']} / {own['kernels']}, {k['ms']:.2f} / {own['kernel_ms']:.2f} ms, "
        f"{len(names)} / {len(own['names'])} names, {len(names & set(own['names']))} of them alike, lost {lost or 'nothing'}",
        "ok" if good and not lost else "FAIL")
    again = books(run([*command, "plain", "30"])[1])
    base = min(plain["step_ms"], again.get("step_ms", plain["step_ms"]))
    slow, theirs = (traced["step_ms"] / base - 1) * 100, (own["step_ms"] / base - 1) * 100
    row("2", "slowdown of a GPT-2 124M step", f"{slow:+.2f} % (torch.profiler {theirs:+.2f} %; step {base:.2f} ms)",
        "ok" if slow <= 2 else "FAIL")
    path, inside, status, err = record("inside", [*command, "inside", "60"], ["--overhead", "0"])
    gap = [x for x in losses(path) if "another profiler" in x["reason"]]
    row("5", "torch.profiler inside tacho run", f"status {status}, its kernels {inside.get('kernels')}, gap rows {len(gap)}, "
        f"own kernels {kernels(path)['n']}", "ok" if status == 0 and inside.get("kernels") and gap and kernels(path)["n"] else "FAIL")


def check_cost():
    bare = books(run([WORK, "cost", "20", "2000"])[1]).get("launch_ns")
    for kinds, text in (("10", "kernels"), ("10,5", "kernels, runtime"), ("10,5,1,2", "copies too"), ("", "all of the default")):
        _, own, status, _ = record("cost", [WORK, "cost", "20", "2000"], ["--overhead", "0"], {"TACHO_GPU_KINDS": kinds})
        ns = own.get("launch_ns")
        row("2b", f"a launch, with {text}", f"{ns} ns, bare {bare} ns" + (f": {ns - bare:+.0f} ns" if ns and bare else ""),
            "printed" if status == 0 else "FAIL")


def check_verdicts():
    for number, mode, steps, count, wanted in (("4", "gpu", 30, 60, "DEVICE-BUSY"), ("4", "launch", 30, 2000, "LAUNCH-BOUND"),
                                               ("4", "loader", 20, 5, "INPUT-BOUND"), ("4", "copy", 30, 2, "COPY-BOUND")):
        path, _ = own_job(number, "verdict-" + mode, mode, steps, count)
        if not path:
            continue
        done = run([TACHO, "report", "--json", path])
        report = json.loads(done[1]) if done[0] == 0 else {}
        verdict = report.get("verdict", "")
        row(number, f"a job bound by {mode}", verdict or f"no report: {done[2].strip()[:100]}",
            "ok" if report.get("verdict_class") == wanted else "FAIL")


def check_kill():
    path, _, status, _ = record("kill", [WORK, "kill", "20", "40"], ["--overhead", "0"])
    k = kernels(path)
    ended = ask(path, "SELECT ended FROM process WHERE exit_status = 137")
    row("6", "SIGKILL in the middle of a step", f"status {status}, {k['n']} kernels, {len(ended)} process, losses {losses(path)}",
        "ok" if status == 128 + signal.SIGKILL and k["n"] >= 400 and ended else "FAIL")


def report_of(path, *options):
    done = run([TACHO, "report", "--json", path, *options])
    return json.loads(done[1]) if done[0] == 0 else {}


def check_energy():
    """Joules a step in the report against what the job itself read from NVML, around the same kind of steps."""
    path, own = own_job("7", "energy", "gpu", 150, 400)
    if not path:
        return
    energy = report_of(path).get("energy") or {}
    step = energy.get("per_step_j")
    if own.get("joule", -1) <= 0 or step is None:
        row("7", "energy a step", f"NVML tells the job {own.get('joule')} J, the report {step}", "open" if own.get("joule", -1) <= 0 else "FAIL")
        return
    theirs = own["joule"] / own["joule_steps"]
    row("7", "energy a step, beside NVML's own counter", f"{step:.3f} J / {theirs:.3f} J ({energy['power_w']:.0f} W)",
        "ok" if near(step, theirs, 0.02) else "FAIL")


def check_roofline():
    """Ceilings measured by a program of its own are put into the file; no product may stand above them."""
    roof = books(run([WORK, "roof", "20"])[1])
    if "bf16_flops" not in roof:
        row("3", "ceilings", f"not measured: no {roof.get('missing', 'answer')}", "open")
        return
    path, own, status, _ = record("roofline", [WORK, "gemm", "20", "40"], ["--overhead", "0", "--gemm-shapes"])
    if status or "missing" in own:
        row("3", "a run of products", f"status {status} {own}", "FAIL")
        return
    with sqlite3.connect(path) as db:
        db.executemany("INSERT INTO ceiling VALUES (?, ?, ?, ?, 'measured: tests/gpu/work.cu')",
                       [("", "flops", "bf16", roof["bf16_flops"]), ("", "bandwidth", "", roof["bytes_per_s"])])
    points = (report_of(path).get("roofline") or {}).get("points") or []
    over = [x for x in points if x["dtype"] == "bf16" and x["flops"] / x["time_us"] * 1e6 > 1.02 * roof["bf16_flops"]]
    best = max((x["flops"] / x["time_us"] * 1e6 for x in points), default=0)
    row("3", "ceilings and roofline", f"bf16 {roof['bf16_flops'] / 1e12:.0f} TFLOP/s, memory {roof['bytes_per_s'] / 1e12:.2f} TB/s; "
        f"{len(points)} points, best {best / 1e12:.0f} TFLOP/s, {len(over)} above", "ok" if points and not over else "FAIL")


def check_counters():
    """Hardware counters: what the permission allows. The step of `gpu` does no matrix work; that of `gemm` does."""
    for mode, key in (("sampled", "counters.sampled"), ("roofline", "counters.roofline")):
        path, own, status, _ = record("counters-" + mode, [WORK, "gemm", "40", "400"], ["--overhead", "0", "--counters", mode])
        said = ask(path, f"SELECT value FROM run WHERE key = '{key}'") if status == 0 else []
        text = said[0]["value"] if said else f"status {status}"
        verdict = "open" if "not permitted" in text or "missing" in own else "ok" if "metrics" in text else "FAIL"
        gpus = report_of(path).get("hardware") or [{}]
        if mode == "sampled":
            text += f"; matrix units {gpus[0].get('pm_tensor_active_pct')} %"
        else:
            step, flops = gpus[0].get("step") or {}, 100 * 2 * (4096**3 + 4096 * 768 * (2304 + 3072) + 4096 * 16 * 4096)
            text += f"; matrix operations {step.get('matrix_ops')}, of the shapes {flops}"
            if verdict == "ok" and not near(step.get("matrix_ops"), flops, 0.05):
                verdict = "FAIL"
        row("3b", f"hardware counters, {mode}", text, verdict)
        if mode == "roofline":
            check_ranges(path, gpus[0].get("step") or {}, verdict)


def check_ranges(path, step, verdict):
    """The ranges of a step of `gemm`, counted one by one: each has the operations of its own shape, all of them the step's."""
    ranges = {x["name"]: x for x in report_of(path).get("ranges_counted") or []}
    said = ask(path, "SELECT value FROM run WHERE key = 'counters.ranges'")
    wanted = {"square": 100 * 2 * 4096**3, "qkv": 100 * 2 * 4096 * 2304 * 768, "down": 100 * 2 * 4096 * 768 * 3072}
    ops = {name: (ranges.get(name) or {}).get("matrix_ops") for name in wanted}
    total = sum(x.get("matrix_ops") or 0 for x in ranges.values())
    good = all(near(ops[name], wanted[name], 0.05) for name in wanted) and near(total, step.get("matrix_ops"), 0.02)
    text = "; ".join(f"{name} {ops[name]} of {wanted[name]}" for name in wanted) + f"; all {total:.6g} of {step.get('matrix_ops')}"
    row("3c", "hardware counters of ranges", f"{said[0]['value'] if said else 'none'}; {text}",
        "open" if verdict == "open" else "ok" if good else "FAIL")


def write_page(doctor):
    """All of docs/gpu-results.md, with the lines of this run in the place of what was there."""
    with open(os.path.join(OUT, "gpu-results.md"), "w", encoding="utf-8") as f:
        f.write("# Results on a GPU\n\nThe checks of `tests/gpu/run.sh`, from the last machine with a GPU. The command writes this page "
                "(`gpu-results.md` in its folder for\nresults); `make gpu-tests` builds what it carries.\n\n")
        f.write(f"Run on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {time.monotonic() - STARTED:.0f} s.\n\n")
        f.write("| line | what | measured | |\n|---|---|---|---|\n")
        for r in sorted(ROWS, key=lambda r: r[0]):
            f.write("| " + " | ".join(str(x).replace("|", "/").replace("\n", " ") for x in r) + " |\n")
        f.write("\nDriver, versions and what this machine permits, as `tacho doctor` says:\n\n```\n" + doctor[doctor.find("\ngpu\n"):].strip() +
                "\n```\n")


# What fills the table: the function, the lines that it owes, and its seconds. PyTorch has the most lines and needs the most time, so it
# comes right after the check that says whether anything is recorded at all. The seconds add up to less than run.sh waits.
CHECKS = ((check_counts, ("1a",), 40), (torch_runs, ("1", "2", "5"), 150), (check_energy, ("7",), 60), (check_kill, ("6",), 30),
          (check_verdicts, ("4",), 75), (check_roofline, ("3",), 50), (check_cost, ("2b",), 50), (check_counters, ("3b", "3c"), 65))
DOCTOR_S = 15
assert DOCTOR_S + sum(c[2] for c in CHECKS) < 540


def carry_out(check, numbers):
    try:
        check()
    except Exception as error:  # one check that breaks must not cost the others
        LOG.append(traceback.format_exc())
        row(numbers[0], check.__name__, f"{type(error).__name__}: {error}", "FAIL")
    for number in numbers:
        if not any(r[0] == number for r in ROWS):
            row(number, check.__name__, "no answer: see the log", "FAIL")


def main():
    global deadline
    deadline = STARTED + DOCTOR_S
    doctor = run([TACHO, "doctor"])[1]
    failures = []
    with open(os.path.join(OUT, "log.txt"), "w", encoding="utf-8") as log:
        for check, numbers, seconds in CHECKS:
            deadline, before = time.monotonic() + seconds, len(ROWS)
            LOG.append(f"\n==== {check.__name__}: lines {', '.join(numbers)}\n")
            carry_out(check, numbers)
            log.writelines(LOG)
            log.flush()
            if any(r[3] == "FAIL" for r in ROWS[before:]):
                failures += LOG
            LOG.clear()
            write_page(doctor)
    print("".join(failures) + ("\n" + doctor if failures else ""))
    failed = sum(r[3] == "FAIL" for r in ROWS)
    print(f"\n{len(ROWS)} lines, {failed} failed, {sum(r[3] == 'open' for r in ROWS)} open; {OUT}/gpu-results.md")
    return 1 if failed else 0


sys.exit(main())
