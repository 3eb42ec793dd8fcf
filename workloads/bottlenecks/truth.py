# SPDX-License-Identifier: Apache-2.0
"""What the measured times of a draw say: gains with their intervals, the true cause, and whether the draw counts."""
import math
import statistics

LEAST_GAIN, MOST_TIES, TIE_SHARE = 5.0, 2, 0.8  # %, fixes, of the best gain
MOST_APART = 3.0  # %: equal runs differ by more over all rounds
MOST_HALF = 3.0  # points of the slow step: half of the interval of the best fix
MOST_OTHERS = 0.1  # of the cores, used by programs that are no part of the draw
Z90 = 1.645  # the 95th percentile of the normal distribution
T90 = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796}


def gains(rounds, fix):
    """Per cent that each round gained by a fix: the slow run beside it is the mean of the two of that round."""
    return [100 * ((times[0] + times[-1]) / 2 / times[fix + 1] - 1) for times in rounds]


def ratios(rounds, fix):
    """The step with a fix in points of the slow step, of each round."""
    return [100 * times[fix + 1] / ((times[0] + times[-1]) / 2) for times in rounds]


def equals(rounds):
    """The second slow run of each round beside the first one, in % of it."""
    return [100 * math.log(times[-1] / times[0]) for times in rounds]


def apart(rounds):
    """By how many per cent the second slow runs differ from the first ones over all rounds."""
    return abs(statistics.fmean(equals(rounds)))


def t90(freedom):
    """The 95th percentile of Student's t: from the table, beyond it to 0.01 by the first term of its expansion (Abramowitz and Stegun 26.7.5)."""
    return T90.get(freedom) or Z90 + (Z90**3 + Z90) / (4 * freedom)


def half_width(values):
    """Of the 90 % interval of the mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    return t90(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def truth(state):
    """The true cause of a draw: index of the best fix and those that tie with it, the ratio of the step with it to the slow one, the
    spread of two equal runs in %. The best fix is chosen in every other round, and measured in those between."""
    fixes, rounds = state["recipe"]["fixes"], state["rounds"]
    aa = statistics.median(abs(100 * (times[-1] / times[0] - 1)) for times in rounds)
    choice, magnitude = rounds[0::2], rounds[1::2] or rounds
    told = {"aa": aa, "apart": apart(rounds), "ties": [], "best": None}
    changes = not any(fix["class"] == "same" and fix.get("planted") for fix in fixes)
    allowed = [i for i, fix in enumerate(fixes) if fix["class"] == "same" or (changes and fix.get("planted"))]
    if not allowed:
        return told
    chosen = {i: statistics.median(gains(choice, i)) for i in allowed}
    best = max(chosen, key=chosen.get)
    for i in allowed:
        behind = [x - y for x, y in zip(gains(choice, best), gains(choice, i))]
        if i != best and abs(statistics.fmean(behind)) <= half_width(behind) and chosen[i] >= TIE_SHARE * chosen[best]:
            told["ties"].append(i)
    gained = gains(magnitude, best)
    told |= {"best": best, "chosen": chosen[best], "gain": statistics.median(gained), "half": half_width(ratios(rounds, best))}
    told["ratio"] = 1 / (1 + told["gain"] / 100)
    return told


def others_of(state):
    """Share of the cores that programs outside of the draw used: while the slow run was recorded, and in the median run."""
    runs = [cores for turn in state.get("others", []) for cores in turn]
    most = max(state.get("recorded_others", 0.0), statistics.median(runs) if runs else 0.0)
    return most / state.get("cores", 1)


def redrawn(state, told):
    """Why a draw does not count, as KIND: DETAIL; None: it does."""
    if others_of(state) > MOST_OTHERS:
        return f"other programs: {100 * others_of(state):.0f} % of the cores"
    if told["apart"] > MOST_APART and "neighbour" not in state["recipe"]:
        return f"equal runs differ: {told['apart']:.1f} %"
    if told["best"] is not None and told["half"] > MOST_HALF and "neighbour" not in state["recipe"]:
        return f"not decided: the step with the fix is known to {told['half']:.1f} points"
    if told["best"] is not None and told["chosen"] < LEAST_GAIN:
        return f"little to gain: the best fix gains {told['chosen']:.1f} %"
    return "ties: too many fixes gain the same" if len(told["ties"]) > MOST_TIES else None
