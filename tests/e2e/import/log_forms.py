#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes logs whose lines look as their real producers write them, and compares what tacho read with what was put in: bars that are smoothed or
resumed, bars of Keras and rich, times of many loggers, event files of TensorBoard. usage: log_forms.py make FOLDER | check FOLDER TACHO"""
import os, time

import log_check
from formats import field
from logs import record, scalar


# ---- bars of tqdm --------------------------------------------------------------------------------------------------------------------


class Bar:
    """Draws what tqdm does: the speed is a moving mean of steps and of times, at the end the mean of all; a step that advances by many is
    followed by a line only where something else asks for one, as the speed then was."""

    def __init__(self, total, label="", initial=0):
        self.total, self.label, self.initial, self.done, self.now = total, label, initial, initial, 0.0
        self.means, self.drawn, self.lines = [], (initial, 0.0), []
        self.draw()

    def draw(self, rate=None):
        passed, text = int(self.now), "?it/s"
        if rate is None and self.means:
            weight = sum(0.3 * 0.7**k for k in range(len(self.means)))
            steps, times = (sum(0.3 * 0.7**k * pair[i] for k, pair in enumerate(reversed(self.means))) / weight for i in (0, 1))
            rate = steps / times
        if rate:
            text = f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
        self.lines.append(f"{self.label}{100 * self.done // self.total:3d}%|█▏   | {self.done}/{self.total} "
                          f"[{passed // 60:02d}:{passed % 60:02d}<00:00, {text}]\r")

    def step(self, seconds, steps=1, smooth=True):
        self.done, self.now = self.done + steps, self.now + seconds
        if smooth and self.now - self.drawn[1] >= 0.1:
            self.means.append((self.done - self.drawn[0], self.now - self.drawn[1]))
            self.drawn = self.done, self.now
            self.draw()

    def loss(self):
        self.lines += ["\n{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.1}\n"]
        self.draw()

    def close(self):
        self.draw((self.done - self.initial) / self.now)
        return self.lines


def smoothed():
    """A first step that compiles, and steps that save: the moving mean spreads them over what follows, the time that passed does not."""
    bar = Bar(1000)
    for k in range(1, 1001):
        bar.step({1: 30.0}.get(k, 20.0 if k % 100 == 0 else 0.4))
        if k % 10 == 0:
            bar.loss()
    return bar.close(), (1000, 1, 1000, 625.6, 0.005)


def short_among_long():
    """A step of 3 s among those of minutes does not get their moving mean."""
    bar = Bar(120)
    for k in range(1, 121):
        bar.step(3.0 if k % 10 == 0 else 200.0)
    return bar.close(), (120, 1, 120, 180.3e3, 0.001)


def hugging_face(first, last, seconds, load=2.0, often=True):
    """Trainer resumes: the bar begins at 0 and jumps. Its speeds never recover from that; tqdm then draws it only where a loss is logged."""
    bar = Bar(last)
    bar.now += load
    bar.step(seconds, first + 1)
    for k in range(first + 2, last + 1):
        bar.step(seconds, smooth=often)
        if k % 10 == 0:
            bar.loss()
    return bar.close()


def resumed():
    return hugging_face(5000, 5100, 3.0), (99, 5002, 5100, 3000, 0.02)


def resumed_rarely_drawn():
    return hugging_face(5000, 5100, 3.0, often=False), (99, 5002, 5100, 3000, 0.02)


def resumed_fast():
    return hugging_face(500, 3000, 0.12), (2499, 502, 3000, 120, 0.01)


def resumed_in_one_log():
    """The run fails at step 260 and goes on from step 200: steps keep their numbers."""
    bar = Bar(400)
    for _ in range(260):
        bar.step(1.5)
    return bar.lines + hugging_face(200, 400, 1.5), (459, 1, 400, 1500, 0.02)


def skipped_at_once():
    """Programs that use accelerate move the bar before the first step."""
    bar = Bar(2000, "Steps: ")
    bar.step(0.2, 1500)
    for _ in range(500):
        bar.step(0.5)
    return bar.close(), (500, 1501, 2000, 500, 0.02)


def begun_later():
    """tqdm(initial=...), a second time in one log."""
    bar, again = Bar(300, "Steps: "), Bar(300, "Steps: ", 150)
    for _ in range(200):
        bar.step(0.5)
    for _ in range(150):
        again.step(0.5)
    return bar.lines + again.close(), (350, 1, 300, 500, 0.02)


def fast_from_the_beginning():
    """No jump: a bar that is as fast after its first line as before it, and one whose first steps only wait for the device later."""
    bar = Bar(3000, "Steps: ")
    for k in range(3000):
        bar.step(0.005 if k < 9 else 0.01)
    return bar.close(), (3000, 1, 3000, 10, 0.02)


# ---- bars of Keras and rich ------------------------------------------------------------------------------------------------------------


def unit(seconds):
    return f"{seconds:.0f}s/step" if seconds >= 1 else f"{1000 * seconds:.0f}ms/step" if seconds >= 1e-3 else f"{1e6 * seconds:.0f}us/step"


def keras(version, verbose, steps, seconds, validation=0.0, first=0.0, every=1):
    """Three epochs and an evaluation. With verbose=1 each line is drawn over the one before; in version 3 the first number of a bar that goes on
    is the time that is left, in version 2 that is named."""
    def draw(k, total, passed, mean, ends, loss):
        full = 20 * k // total
        left = mean * (total - k)
        losses = f"loss: {loss:.4f} - mae: 1.2943" + (f" - val_loss: {loss + 1:.4f} - val_mae: 0.65" if ends and validation else "")
        if verbose == 2 and version == 3:
            return f"{k}/{total} - {passed:.0f}s - {unit(passed / k)} - {losses}\n"
        if verbose == 2:
            return f"{k}/{total} - {passed:.0f}s - {losses} - {passed:.0f}s/epoch - {unit(passed / k)}\n"
        if version == 3:
            return (f"\r\x1b[1m{k}/{total}\x1b[0m \x1b[32m{'━' * full}\x1b[0m\x1b[37m{'━' * (20 - full)}\x1b[0m \x1b[1m"
                    f"{f'{passed:.0f}' if ends else int(left)}s\x1b[0m {unit(mean)} - {losses}" + ("\n" if ends else "\b" * 90))
        return (f"\r{k:3d}/{total} [{'=' * full}>{'.' * (20 - full)}] - " + (f"{passed:.0f}s {unit(mean)}" if ends else f"ETA: {left:.0f}s") +
                f" - {losses}" + ("\n" if ends else "\b" * 90))

    lines = []
    for e in range(3):
        lines.append(f"Epoch {e + 1}/3\n")
        begin = first if e == 0 else 0
        if verbose == 1:
            lines += [draw(k, steps, begin + k * seconds, seconds, False, 2.5 - e / 2) for k in range(1, steps + 1, every)]
            lines.append(draw(steps, steps, begin + steps * seconds, seconds, False, 2.5 - e / 2))
        passed = begin + steps * seconds + validation
        lines.append(draw(steps, steps, passed, seconds + validation / steps, True, 2.5 - e / 2))
    validation = 0
    lines += [draw(k, 313, 3.13, 0.01, k == 313, 1.5) for k in range(313 if verbose == 2 else 1, 314, 12)]
    return lines + [draw(steps, steps, steps / 10, 0.1, True, 1.5)]


def named(name, lines, wanted):
    def log():
        return lines, wanted
    log.__name__ = name
    return log


KERAS = [named("keras_3", keras(3, 1, 200, 0.037, first=5), (600, 1, 600, 37, 0.01)),
         named("keras_3_validates", keras(3, 1, 200, 0.037, 4), (600, 1, 600, 37, 0.01)),
         named("keras_3_lines", keras(3, 2, 200, 0.037), (600, 1, 600, 37, 0.02)),
         named("keras_3_lines_validate", keras(3, 2, 200, 0.037, 4), (600, 1, 600, 57, 0.02)),
         named("keras_3_short_steps", keras(3, 1, 1875, 0.00233, every=20), (5625, 1, 5625, 2.33, 0.09)),
         named("keras_2", keras(2, 1, 200, 0.037, first=5), (600, 1, 600, 37, 0.01)),
         named("keras_2_lines", keras(2, 2, 200, 0.037), (600, 1, 600, 37, 0.02)),
         named("keras_2_long_steps", keras(2, 1, 30, 2.3), (90, 1, 90, 2300, 0.01))]


def rich_bar():
    """RichProgressBar of Lightning on a terminal; its speed is that of the last 30 s."""
    lines = []
    for e in range(3):
        for k in range(0, 201, 2):
            passed = int(k * 0.06)
            speed, full = (16.67 if k else 0.0), 40 * k // 200
            lines.append(f"\r\x1b[2KEpoch {e}/2 \x1b[91m{'━' * full}\x1b[0m\x1b[90m╺{'━' * (39 - full)}\x1b[0m {k}/200 0:00:{passed:02d} • 0:00:0{9 - k // 25} "
                         f"{speed:.2f}it/s v_num: 0.000 train_loss: {3 - 0.01 * k:.3f}")
    return lines, (600, 1, 600, 60, 0.01)


# ---- times ---------------------------------------------------------------------------------------------------------------------------

NIGHT = 1716508790  # 2024-05-23 23:59:50 UTC


def times(name, form, start=NIGHT, point="", tail="", every=2.5):
    """40 lines of steps that take 2.5 s: FORM is one of strftime, POINT and ms follow it, {k} in it or TAIL is the number of a step."""
    def log():
        lines = []
        for k in range(40):
            at = start + every * k
            text = time.strftime(form, time.gmtime(int(at))) + (f"{point}{round(at % 1 * 1000):03d}" if point else "")
            lines.append(f"{text}{tail or ' step {k} loss 2.5'}\n".replace("{k}", str(k)))
        return lines, (39, 1, 39, 1000 * every, 0.006 if not point else 1e-6)
    log.__name__ = "times_" + name
    return log


def rich_handler():
    """rich prints a time once, and spaces as long as it stays."""
    lines = []
    for k in range(100):
        text = time.strftime("[%H:%M:%S]", time.gmtime(NIGHT + k // 5))
        lines.append(f"{text if k % 5 == 0 else ' ' * 10} INFO     step {k} loss 2.5          train.py:12\n")
    return lines, (90, 6, 95, 200, 1e-6)  # the first and the last second may not be whole


def late_process():
    """Another process prints a line of before midnight after one of midnight; its launcher names each."""
    lines = []
    for k in range(40):
        text = time.strftime("%H:%M:%S", time.gmtime(NIGHT + k))
        before = time.strftime("%H:%M:%S", time.gmtime(NIGHT + k - 1))
        lines += [f"[rank0]:[{text}] step {k} loss 2.5\n", f"[rank1]:[{before}] step {k} loss 2.5\n"]
    return lines, (39, 1, 39, 1000, 1e-6)


def kinds_of_times():
    """A library prints dates of another kind between the lines of the program, which has the time of day."""
    lines, wanted = times("", "%H:%M:%S", every=2)()
    return [part for line in lines for part in (line, "2019-01-01 00:00:00 WARNING something is slow\n")], wanted


def ends_with_a_month():
    """A line that ends behind the name of a month: what is behind it is of the line before."""
    lines, wanted = times("", "%d %b %Y %H:%M:%S")()
    return [part for line in lines for part in (line, "printed2024 00:53:22 7\n", line[:6] + "\n")], wanted


TIMES = [ends_with_a_month, times("of_day", "%H:%M:%S"), times("of_day_in_brackets", "[%H:%M:%S]"), times("of_day_ms", "%H:%M:%S", point=",", tail=" INFO step {k} loss 2.5"),
         times("of_day_behind_level", "INFO %H:%M:%S", point="."), times("of_day_of_rank", "[default0]:[%H:%M:%S", point=".", tail="] step {k} loss 2.5"),
         times("srun", "0: %H:%M:%S"), times("syslog", "%b %e %H:%M:%S", tail=" node01 train[4242]: step {k} loss 2.5"),
         times("syslog_new_year", "%b %e %H:%M:%S", 1735689590), times("syslog_no_leap_day", "%b %e %H:%M:%S", 1740787190),
         times("glog_new_year", "I%m%d %H:%M:%S", 1735689590, ".", "456 1402 train.py:12] step {k} loss 2.5"),
         times("ctime", "[%a %b %e %H:%M:%S %Y]"), times("day_first", "%d-%b-%y %H:%M:%S"), times("web", "[%d/%b/%Y:%H:%M:%S +0000]"),
         times("dots", "%d.%m.%Y %H:%M:%S"), times("months_of_two_digits", "%d/%m/%Y %H:%M:%S"),
         times("half_days", "%m/%d/%Y %I:%M:%S %p", NIGHT - 12 * 3600 + 3600), times("rich_date", "[%m/%d/%y %H:%M:%S]", tail=" INFO step {k} loss 2.5"),
         times("spark", "%y/%m/%d %H:%M:%S", tail=" INFO Train: step {k} loss 2.5"),
         times("vllm", "INFO %m-%d %H:%M:%S", tail=" train.py:12] step {k} loss 2.5"), times("loguru", "%Y-%m-%d %H:%M:%S", point=".", tail=" | INFO | step {k} loss 2.5"),
         times("torchrun", "[rank0]:[titan] %Y-%m-%d %H:%M:%S", point=",", tail=" - root - INFO - step: {k} loss: 2.5"),
         rich_handler, late_process, kinds_of_times]


LOGS = [*TIMES, *KERAS, rich_bar, smoothed, short_among_long, resumed, resumed_rarely_drawn, resumed_fast, resumed_in_one_log, skipped_at_once, begun_later, fast_from_the_beginning]


# ---- event files of TensorBoard ----------------------------------------------------------------------------------------------------------


def events(steps, begin=NIGHT, every=0.5, tag="train/loss", numbered=True):
    """As a SummaryWriter writes them: the version, then a scalar for each step, which has no number where the program gave none."""
    out = record(field(1, float(begin)) + field(3, "brain.Event:2"))
    for i, k in enumerate(steps):
        out += record(field(1, begin + every * i) + (field(2, k) if k and numbered else b"") + field(5, scalar(tag, 2.5)))
    return out


BOARDS = {"unnumbered/events.out.tfevents.1.a": events(range(60), numbered=False), "single/events.out.tfevents.1.a": events([7]),
          "runs/a/events.out.tfevents.1.a": events(range(60)), "runs/b/events.out.tfevents.2.a": events(range(60), NIGHT + 9000),
          "ranks/rank0/events.out.tfevents.1.a": events(range(60)), "ranks/rank1/events.out.tfevents.1.b": events(range(60)),
          "checked/train/events.out.tfevents.1.a": events(range(60)), "checked/validation/events.out.tfevents.1.a": events(range(60)),
          "again/events.out.tfevents.1.a": events(range(60)), "again/events.out.tfevents.2.a": events(range(60, 110), NIGHT + 600),
          "again/events.out.tfevents.3.a": events([110], NIGHT + 900, tag="eval/loss"),
          "together/events.out.tfevents.1.a": events(range(60)), "together/events.out.tfevents.1.b": events(range(60), NIGHT + 0.25),
          "curves/events.out.tfevents.1.a": record(field(1, 1.0) + field(3, "brain.Event:2")),
          "hparams/run/events.out.tfevents.1.a": events(range(60)),
          "hparams/run/1700000001.5/events.out.tfevents.1.b": record(field(1, 1.0) + field(3, "brain.Event:2")),
          "hparams/one/events.out.tfevents.1.c": events([7]),
          "pairs/x/events.out.tfevents.1.a": events(range(60)), "pairs/x/acc_a/events.out.tfevents.1.b": events(range(50), tag="acc"),
          "pairs/x/loss_a/events.out.tfevents.1.c": events(range(50), tag="loss"),
          "run-a-tag-loss.csv": "".join(["Wall time,Step,Value\n"] + [f"{NIGHT + k / 2},{10 * k},{3 - k / 100}\n" for k in range(40)]).encode()}


def make(folder):
    os.makedirs(folder)
    for name, data in BOARDS.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "wb") as f:
            f.write(data)
    log_check.write(folder, LOGS)


if __name__ == "__main__":
    log_check.main(LOGS, make)
