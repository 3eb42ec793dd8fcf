# SPDX-License-Identifier: Apache-2.0
"""Does the verdict of a report agree with the report's own numbers, and do its gains with each other?

verdicts.py NAME.json...: reports; beside each, in files NAME.*=*, there may be advice for edits of the host alone.
"""
import glob
import json
import re
import sys

FLOOR = 2.0  # % of a step: below it nothing is listed as something to change
TRY = 5.0  # %: so much must be expected of what may gain nothing, to be worth measuring
KEEPS_UP = 0.8  # of the data wait: workers that take so much away keep up with the step
BOUNDS = {"memory": "memory-bound", "compute": "compute-bound", "latency": "latency-bound",
          "inefficient_memory": "inefficient on the memory side",
          "inefficient_compute": "inefficient on the arithmetic side", "unknown": "unknown"}
CLASSES = {"MEMORY-BOUND": ["memory"], "COMPUTE-BOUND": ["compute"], "LATENCY-BOUND": ["latency"],
           "INEFFICIENT": ["inefficient_memory", "inefficient_compute"], "UNKNOWN": ["unknown"]}
NAMES = {"COMMUNICATION-BOUND": "exposed_comm_pct", "STRAGGLER-BOUND": "exposed_comm_pct",
         "COPY-BOUND": "exposed_copy_pct", "INPUT-BOUND": "input_pct", "HOST-BOUND": "host_pct",
         "LAUNCH-BOUND": "host_pct", "UNEXPLAINED": "unattributed_pct"}
# the classes of the budget that a finding takes away
TAKES = {"HOST_BOUND": ["host_pct", "unattributed_pct"], "LAUNCH_BOUND": ["host_pct", "unattributed_pct"],
         "SYNC_STALL": ["host_pct", "unattributed_pct"], "EXPOSED_COMM": ["exposed_comm_pct"],
         "EXPOSED_COPY": ["exposed_copy_pct"], "PAGEABLE_COPY": ["exposed_copy_pct"]}
DEVICE = ["compute_pct", "exposed_comm_pct", "exposed_copy_pct"]
# what the verdict calls the time of a class
DOES = {"is exposed communication": "exposed_comm_pct", "is pipeline bubble": "bubble_pct", "is exposed copies": "exposed_copy_pct",
        "is data wait": "input_pct", "is work of asynchronous phases": "io_pct", "is host time": "host_pct",
        "leaves the device idle while the host": "host_pct", "leaves the device idle for no known reason": "unattributed_pct",
        "is recorded as idle time of the device": "unattributed_pct", "leaves the device idle, ": "unattributed_pct",
        "is outside all ranges": "unattributed_pct", "is mostly opaque": "unattributed_pct",
        "of it is inside ranges that do not say": "host_pct", "outside all ranges": "unattributed_pct"}
# the share that the claim of a finding names: the pattern, where the report has it, by how much it is rounded
SHARES = {"INPUT_STALL": (r"([\d.]+) % of its time", "budget/input_pct", 0.051),
          "UNATTRIBUTED": (r"([\d.]+) % of the step", "budget/unattributed_pct", 0.051),
          "OTHER_PROGRAMS": (r"for (\d+) % of the steps' time", "system/others_lost_pct", 0.51),
          "CPU_QUOTA": (r"a CPU quota of ([\d.e+-]+) cores", "system/cpu_quota", 0.051),
          "MEMORY_PRESSURE": (r"in (\d+) % of the steps' time", "pressure/some_pct", 0.51),
          "UNEVEN_DATA": (r"own time is ([\d.]+) %", "ranks/straggler/excess_pct", 0.051),
          "STRAGGLER": (r"own time is ([\d.]+) %", "ranks/straggler/excess_pct", 0.051),
          "RANK_JITTER": (r"own time is ([\d.]+) % of the step", "ranks/jitter/pct", 0.051)}
BESIDE = r"use ([\d.]+) cores beside the run", "system/other_cores", 0.051  # OTHER_PROGRAMS with a ceiling
SIZES = {"MiB": 1 << 20, "GiB": 1 << 30}
checks = 0


def agree(what, said, known, within=0.051):
    global checks
    checks += 1
    assert known is not None and abs(float(said) - known) <= within, "%s: said %s, known %s" % (what, said, known)


def must(ok, what):
    global checks
    checks += 1
    assert ok, what


def pct(report, key):
    return report["budget"][key] or 0


def value_at(report, path):
    for part in path.split("/"):
        report = report[part] or {}
    return report


def parts_of_step(report):
    """What the verdict says of classes, operations and steps."""
    verdict = report["verdict"]
    for words, key in DOES.items():
        for said in re.findall(r"([\d.]+) % (?:of every step )?" + re.escape(words), verdict):
            agree(words, said, report["budget"][key])
    said = re.search(r"largest op: (.*), (\d+) % of the ops' time", verdict)
    if said and not report["kernels_omitted"]:
        work = [k for k in report["kernels"] if k["kind"] in ("matrix", "attention", "convolution", "other")]
        largest = max(work, key=lambda k: k["self_us"])
        must(largest["name"].startswith(said.group(1)), "the largest op is %s: %s" % (largest["name"], verdict))
        agree("largest op", said.group(2), 100 * largest["self_us"] / sum(k["self_us"] for k in work), 0.51)
    said = re.search(r"median of (\d+), from", verdict)
    must(bool(said) == (": a step lasts " in verdict), verdict)
    if said:
        agree("counted steps", said.group(1), report["steps"]["counted"], 0)
    said = re.search(r"shares are ([\d.]+) % compute and ([\d.]+) % other", verdict)
    if said:
        agree("recorded compute", said.group(1), pct(report, "compute_pct"))
        agree("recorded rest", said.group(2), 100 - pct(report, "compute_pct"))


def bytes_of(text):
    number, unit = re.match(r"([\d.]+) ([MG]iB)", text).groups()
    return float(number) * SIZES[unit]


def memory(report):
    """The verdict of a snapshot is about the device that ran out of memory, or that holds most."""
    said = re.search(r"gpu:(\d+) holds at most ([\d.]+ [MG]iB)(?:, (\d+) % of it (.*?))?; ([\d.]+ [MG]iB) are reserved, of which the "
                     r"blocks in use do not need ([\d.]+) %", report["verdict"])
    must(bool(said) == bool(report["allocator"]), report["verdict"])
    if not said:
        return
    device = next(d for d in report["allocator"] if d["device"] == int(said.group(1)))
    for what, text in (("requested_peak_bytes", said.group(2)), ("reserved_peak_bytes", said.group(5))):
        agree(what, bytes_of(text) / device[what], 1, 0.006)
    free = device["reserved_peak_bytes"] - device["allocated_peak_bytes"]
    agree("reserved and not needed", said.group(6), 100 * free / device["reserved_peak_bytes"])
    if said.group(3):
        top = device["categories"][0]
        must(top["name"] == said.group(4), "%s holds most: %s" % (top["name"], report["verdict"]))
        agree(top["name"], said.group(3), 100 * top["bytes"] / device["requested_peak_bytes"], 0.51)
    must((report["verdict_class"] == "OUT OF MEMORY") == (device["failed_requests"] > 0), report["verdict"])
    said = re.search(r"CONF=(\S+) would have reserved ([\d.]+) % less", report["verdict"])
    if said:
        agree(said.group(1), said.group(2), next(s["saved_pct"] for s in device["settings"] if s["setting"] == said.group(1)))


def first_level(report):
    verdict, name = report["verdict"], report["verdict_class"]
    parts_of_step(report)
    memory(report)
    said = re.search(r"([\d.]+) % (?:of every step )?computes", verdict)
    if said:
        agree("computes", said.group(1), report["budget"]["compute_pct"])
    said = re.search(r"^[A-Z, -]*?([A-Z]+-[A-Z]+|UNEXPLAINED): ([\d.]+) % of every step", verdict)
    if said and said.group(1) in NAMES:
        outside = "of every step is outside all ranges" in verdict  # HOST-BOUND: samples say what of the program is there
        agree(name, said.group(2), report["budget"]["unattributed_pct" if outside else NAMES[said.group(1)]])
        must(said.group(1) == name, "%s is called %s" % (name, said.group(1)))
    said = re.search(r"at ([\d.]+) % of the", verdict)
    if said:
        agree("MFU", said.group(1), 100 * report["utilization"]["mfu"])
    said = re.search(r"^([A-Z -]+): ([\d.]+) % of the .* recorded on \d+ devices? is ([a-z ]+), ([\d.]+) % ([a-z ]+)[,(]", verdict)
    must(bool(said) == (" recorded on " in verdict), "shares of a capture: %s" % verdict)
    if said:
        span = sum(d["span_us"] for d in report["devices"])
        shares = {said.group(3): said.group(2), said.group(5).strip(): said.group(4)}
        must(name == "DEVICE-BUSY" or name == "OPAQUE" or said.group(3) != "compute", "named by something else: %s" % verdict)
        for words, key in (("compute", "compute_us"), ("exposed communication", "exposed_comm_us"), ("exposed copies", "exposed_copy_us"),
                           ("idle time", "idle_us")):
            if words in shares:
                agree(words, shares.pop(words), 100 * sum(d[key] for d in report["devices"]) / span)
        must(not shares, "shares of nothing: %s" % shares)
    said = re.search(r"Only ([\d.]+) % of the critical path is on the device", verdict)
    path = report["critical_path"]
    if path["by_cause_us"] and name == "DEVICE-BUSY" and not path["doubt"]:
        device = sum(path["by_cause_us"].get(k) or 0 for k in ("compute", "communication", "peers", "copy", "opaque"))
        device *= 100 / path["length_us"]
        must(bool(said) == (device < 50), "%.1f %% of the path is on the device: %s" % (device, verdict))
        if said:
            agree("path", said.group(1), device)
    must(not (report["devices"] and name == "COMPUTE-BOUND"), "a busy device is called compute-bound")
    said = re.search(r"they used ([\d.]+) of \S+ CPUs, and for (\d+) % of every step", verdict)
    must(bool(said) == (name == "OTHER PROGRAMS"), "%s without its numbers: %s" % (name, verdict))
    if said:
        agree("cores of others", said.group(1), report["system"]["other_cores"])
        agree("lost to others", said.group(2), report["system"]["others_lost_pct"], 0.51)
    said = re.search(r"may use ([\d.]+) cores, and for (\d+) % of every step", verdict)
    must(bool(said) == (name == "CPU QUOTA"), "%s without its numbers: %s" % (name, verdict))
    if said:
        agree("quota", said.group(1), report["system"]["cpu_quota"], 0.051)
        agree("throttled", said.group(2), report["system"]["throttled_pct"], 0.51)
    said = re.search(r"for (\d+) % of every step tasks of .* wait for memory, all of them at once for (\d+) %", verdict)
    must(bool(said) == (name == "MEMORY PRESSURE"), "%s without its numbers: %s" % (name, verdict))
    if said:
        agree("pressure", said.group(1), report["pressure"]["some_pct"], 0.51)
        agree("full pressure", said.group(2), report["pressure"]["full_pct"], 0.51)
    steps = report["steps"]
    must((steps["source"] is None) == (steps["confidence"] is None), "steps without a confidence")
    said = re.search(r"\b(low|medium|high) confidence", verdict)
    if said and steps["confidence"] and report["budget"].get("steps"):
        order = ["low", "medium", "high"]
        must(order.index(said.group(1)) <= order.index(steps["confidence"]), "surer than its steps: %s" % verdict)
    parts = [v for k, v in report["budget"].items() if k.endswith("_pct") and v is not None]
    if report["budget"].get("steps") and len(parts) == len([k for k in report["budget"] if k.endswith("_pct")]):
        must(abs(sum(parts) - 100) < 1e-6, "the budget sums to %s %%" % sum(parts))


def claims(report):
    """Sentences of findings that name shares or ranks."""
    ranks = report["ranks"] or {}
    for finding in report["findings"]:
        beside = finding["id"] == "OTHER_PROGRAMS" and finding["gain_pct"]["ceiling"]
        if finding["id"] in SHARES:
            pattern, known, within = BESIDE if beside else SHARES[finding["id"]]
            said = re.search(pattern, finding["claim"])
            must(said, finding["claim"])
            agree(finding["id"], said.group(1), value_at(report, known), within)
        if finding["id"] == "RANK_JITTER":
            must(ranks["straggler"]["count"] == 0, "jitter beside a straggler")
        elif finding["id"] == "PIPELINE_IMBALANCE" and "stages of the pipeline" in finding["claim"]:
            said = re.search(r"stage %d has (\d+) %% more" % ranks["even"]["slow_stage"], finding["claim"])
            must(said, finding["claim"])
            agree(finding["id"], said.group(1), ranks["even"]["slow_stage_excess_pct"], 0.51)
        said = re.search(r"([\d.]+) % of (?:the step|every step|its time|the run's time|the steps' time)(?! above)", finding["claim"])
        if said and finding["gain_pct"]["ceiling"] and finding["gain_pct"]["high"] is not None and finding["id"] != "LOW_PRECISION":
            share = float(said.group(1)) + 0.05  # all of it is gone, and no more
            must(finding["gain_pct"]["high"] <= 100 * share / (100 - share) + 0.05,
                 "%s: %s %% at most, of: %s" % (finding["id"], finding["gain_pct"]["high"], finding["claim"]))
        said = re.search(r"\d keeps? up with the step", finding["action"])
        if said and finding["gain_pct"]["expected"] is not None:
            gone = 100 - 100 / (1 + finding["gain_pct"]["expected"] / 100)
            must(gone >= KEEPS_UP * report["budget"]["input_pct"] - 0.1, "%.1f %% of the step go: %s" % (gone, finding["action"]))
        must(finding["listed"] != "ranked" or (not finding["gain_pct"]["ceiling"]
                                               and finding["gain_pct"]["low"] is not None),
             "%s is ranked without an interval" % finding["id"])
    even = ranks.get("even")
    if even:
        must(even["ideal_ms"] <= even["recorded_ms"] * 1.001, "an even pipeline is slower: %s" % even)


def second_level(report):
    bounds = report["kernel_bounds"]
    if not bounds:
        return
    shares = {k: 100 * v / bounds["total_us"] for k, v in bounds["bound_us"].items()}
    must(abs(sum(shares.values()) - 100) < 1e-6, "the bounds do not sum to the kernels' time")
    sums = {name: sum(shares[k] for k in keys) for name, keys in CLASSES.items()}
    most = max(sums.values())
    agree("class", bounds["class_pct"], most, 1e-6)
    if bounds["class"] == "MIXED":
        must(most < 50, "mixed at %s %%" % most)
    else:
        must(sums[bounds["class"]] == most and most >= 50, "%s at %s" % (bounds["class"], sums))
    said = re.search(r"Kernels ([A-Z-]+): ([\d.]+) % of their time is ", bounds["sentence"])
    must(said and said.group(1) == bounds["class"], bounds["sentence"])
    agree("sentence", said.group(2), most)
    for key, words in BOUNDS.items():
        said = re.search(r"[(,] ?%s ([\d.]+) %%" % words, bounds["sentence"])
        is_class = key == "unknown" and bounds["class"] == "UNKNOWN"  # said already
        must(bool(said) == (shares[key] >= 1 and not is_class), "%s of %.1f %% in: %s" % (words, shares[key], bounds["sentence"]))
        if said:
            agree(words, said.group(1), shares[key])
    if report["verdict_class"] == "DEVICE-BUSY":
        must(bounds["sentence"] in report["verdict"], "the verdict has no second level")
    must((bounds["bound_us"]["unknown"] > 0) == (bounds["unknown_because"] is not None), "unknown without a reason")


def gains(report):
    busy = sum(pct(report, k) for k in DEVICE)
    for finding in report["findings"]:
        gain = finding["gain_pct"]
        least = gain["low"] if gain["low"] is not None else gain["high"]
        may_gain = finding["listed"] != "ranked" and not gain["ceiling"] and (gain["expected"] or 0) >= TRY
        must(least is None or least >= FLOOR or may_gain, "%s: %s is not above the floor" % (finding["id"], gain))
        if gain["high"] is not None and finding["id"] in TAKES and busy:
            stays = busy - sum(pct(report, k) for k in TAKES[finding["id"]] if k in DEVICE)
            after = 100 / (1 + gain["high"] / 100)
            must(after >= stays - 0.1, "%s: %.1f %% of the step are left, %.1f stay busy" % (finding["id"], after, stays))
    advice = report["advice"]
    for row in advice["what_if"]:
        for finding in report["findings"]:
            if row["finding"] == finding["id"] and not row["none"]:
                must(row["gain_pct"] == finding["gain_pct"], "%s has two gains" % finding["id"])
    together = advice["together"]
    highs = [row["gain_pct"]["high"] for row in advice["what_if"] if row["gain_pct"]["high"] is not None]
    if together and together["gain_pct"]["ceiling"] and highs:
        must(together["gain_pct"]["high"] >= max(highs) - 0.1, "together less than one alone")
    expected = [row["gain_pct"]["expected"] for row in advice["what_if"]
                if row["gain_pct"]["expected"] is not None and not row["conflicts_with"]]
    if together and together["gain_pct"]["expected"] is not None and expected:
        must(together["gain_pct"]["expected"] >= max(expected) - 0.1, "together less than one alone")
    saved = sum(100 * (1 - 1 / (1 + row["gain_pct_per_pct"] / 100)) for row in advice["sensitivity"] or [])
    must(saved <= 1 + 1e-6, "1 %% less of everything saves %s %%" % saved)


def host_edits(report, advice):
    """Of an edit of the host alone the device's work stays."""
    busy = sum(pct(report, k) for k in DEVICE)
    for row in advice["what_if"]:
        low = row["step_low_ms"]
        if row["none"] or low is None or not busy:
            continue
        must(low >= busy / 100 * advice["step_ms"] * 0.95,
             "%s: %.3f ms, below %.1f %% of %.3f ms" % (row["edit"], low, busy, advice["step_ms"]))


def look(name):
    report = json.load(open(name))
    first_level(report)
    if report["devices"]:
        second_level(report)
    gains(report)
    claims(report)
    if report["devices"]:  # on a CPU the host is the device
        for advice in glob.glob(glob.escape(name[:-len("json")]) + "*=*"):
            host_edits(report, json.load(open(advice)))
    return report["verdict_class"]


for name in sys.argv[1:]:
    before = checks
    print("%s: " % name, end="", flush=True)
    verdict = look(name)
    print("%d checks, %s" % (checks - before, verdict))
