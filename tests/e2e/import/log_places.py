#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes logs whose steps begin anew with each epoch, or whose times are what has passed, and compares what tacho read with what was put in.
usage: log_places.py make FOLDER | check FOLDER TACHO"""
import time

import log_check

BEGIN = 1716426848


def date(seconds, form="%Y-%m-%d %H:%M:%S"):
    moment = BEGIN + seconds
    return time.strftime(form, time.gmtime(moment)) + f",{round(moment * 1000) % 1000:03d}"


def epochs(line, total=50, every=10, count=4, seconds=0.25, shown=None):
    """Lines of a program whose steps begin anew with each epoch: line(epoch, step, seconds since the start, seconds of the epoch)."""
    lines, now = [], 0.0
    for epoch in range(count):
        begin = now
        for step in range(1, total + 1):
            now += seconds
            if step in (shown or range(every, total + 1, every)):
                lines.append(line(epoch, step, now, now - begin) + "\n")
    return lines


def cumulative():
    """`Time` is what has passed since the start: undated, it is the only clock."""
    return (epochs(lambda e, n, t, _: f"Epoch: [{e:2d}/4] Iter [{n:4d}/50] || Time: {t:.4f} sec || lr: 0.0099 || Loss: 2.35"), (190, 11, 200, 250, 1e-6))


def cumulative_with_dates():
    return (epochs(lambda e, n, t, _: f"{date(t)} - INFO - Epoch: [{e:2d}/4] Iter [{n:4d}/50] || Time: {t:.4f} sec || Loss: 2.35"),
            (190, 11, 200, 250, 1e-6))


def of_the_line():
    """`time` is that of all steps between two lines."""
    return (epochs(lambda e, n, t, _: f"{date(t)} step {50 * e + n} loss 2.5 time {2.5:.2f} s"), (190, 11, 200, 250, 1e-6))


def of_the_step():
    """... and here of one, as the dates say, too."""
    return (epochs(lambda e, n, t, _: f"{date(t)} step {50 * e + n} loss 2.5 time {0.25 + n / 1e4:.4f} s"), (191, 10, 200, 253, 0.005))


def elapsed():
    return (epochs(lambda e, n, t, _: f"[{50 * e + n}/9000] Train loss: 0.2, Valid loss: 0.3, Elapsed_time: {t:.5f}"), (190, 11, 200, 250, 1e-6))


def elapsed_hours():
    """Hours with two digits, 100 steps of 30 s: ten of the last digit make a time; where in its digit the first line is, is not known."""
    return ([f"batch {100 * k:6d} | examples/s: 42.95 | loss: 1.2 | time elapsed: {k * 30 / 3600:.2f}h | time left: 0.09h\n" for k in range(1, 101)],
            (8700, 1301, 10000, 300, 0.02))


def named_total():
    """The number without a total is that of the epoch."""
    return (epochs(lambda e, n, t, _: f"{date(t)} - log\\train.log - INFO - iteration:{e + 1} step:{n}/50, NER loss:79.3"), (190, 11, 200, 250, 1e-6))


def twice_an_epoch():
    """... and a line of the whole epoch is none of a step."""
    def line(epoch, step, now, _):
        return (f"{date(now)} Epoch[{epoch + 1:03d}/100], Step[{step - 1:04d}/0050], Avg Loss: 0.98" +
                (f"\n{date(now + 5)} ----- Epoch[{epoch + 1:03d}/100], Train Loss: 1.02, time: 173.49" if step == 26 else ""))
    return (epochs(line, shown=(1, 26)), (175, 1, 175, 250, 1e-6))


def once_an_epoch():
    def line(epoch, step, now, _):
        return (f"{date(now, '%Y/%m/%d %H:%M:%S')[:-4]} - mmengine - INFO - Epoch(train)   [{epoch + 1}][{step}/50]  lr: 1.9e-06  eta: 2:11:38  "
                f"time: 0.2500  data_time: 0.0008  memory: 5806  loss: 3.5\n"
                f"2024/05/23 01:14:43 - mmengine - INFO - Epoch(val) [{epoch + 1}][17/17]    accuracy/top1: 3.4  data_time: 0.0471  time: 0.1634")
    return (epochs(line, shown=(30,), count=10), (451, 30, 480, 250, 1e-6))


def source_position():
    """loguru names a function whose name ends with one of a step, and a line of it."""
    return (epochs(lambda e, n, t, _: f"{date(t).replace(',', '.')} | INFO     | yolox.core.trainer:after_iter:246 - epoch: {e + 1}/4, iter: {n}/50, "
                   f"iter_time: 0.250s, data_time: 0.002s, total_loss: 10.7, ETA: 1:54:27"), (191, 10, 200, 250, 1e-6))


def all_epochs_numbered():
    """The step goes on over epochs, of all N."""
    return (epochs(lambda e, n, t, _: f"{date(t)} epoch: {e}, step: {50 * e + n}/200, loss: 2.5"), (190, 11, 200, 250, 1e-6))


def dllogger():
    lines = epochs(lambda e, n, t, _: f'DLLL {{"timestamp": "{BEGIN + t:.6f}", "type": "LOG", "step": [{e}, {n}], "data": {{"train.loss": 6.9, '
                   '"train.total_ips": 1899.5}}', count=1, every=5)
    return lines + ['DLLL {"timestamp": "1716427848.0", "type": "LOG", "step": [0, 50, 5], "data": {"val.loss": 980.1}}\n'], (45, 6, 50, 250, 1e-4)


def answers():
    """What a model writes has steps and times, too."""
    lines = []
    for k in range(1, 40):
        lines += [f"{date(2.5 * k)} [step {10 * k}] avg_loss=0.07 acc=0.6\n", "**First leg:** 124 km / 62 km/h = 2 h, and\n", "10 s * 2 = 20 s\n"]
    return lines, (380, 11, 390, 250, 1e-6)


def evaluated():
    """nanoGPT: the time is that of one step, of each 50th with an evaluation in it."""
    lines = ["tokens per iteration will be: 16,384\n"]
    lines += [f"iter {n}: loss 6.0489, time {36862.08 if n % 50 == 0 else 560:.2f}ms\n" for n in range(10, 501, 10)]
    return lines, (491, 10, 500, (36862.08 * 10 + 560 * 481) / 491, 1e-4)


def nulls():
    return ([f'{{"current_steps": {5 * k}, "total_steps": 8712, "loss": 1.7, "eval_loss": null, "predict_loss": null, "learning_rate": 5e-05, '
             f'"epoch": 0.0, "elapsed_time": "0:{k // 30:02d}:{k * 2 % 60:02d}"}}\n' for k in range(1, 41)], (195, 6, 200, 400, 1e-6))


def mmcv():
    lines = ['{"env_info": "sys.platform: linux", "seed": 0}\n']
    for epoch in (1, 2, 3):
        lines += [f'{{"mode": "train", "epoch": {epoch}, "iter": {n}, "lr": 1e-4, "data_time": 0.0008, "loss": 3.4, "time": 0.25}}\n' for n in (10, 20, 30)]
        lines.append(f'{{"mode": "val", "epoch": {epoch}, "iter": 30, "lr": 1e-4, "loss": 3.1, "time": 0.9}}\n')
    return lines, (63, 10, 30, 250, 1e-6)


def scalars():
    return ([f'{{"lr": 1e-4, "data_time": 0.0008, "loss": 3.4, "time": 0.25, "epoch": 1, "iter": {n}, "step": {n}}}\n' for n in range(10, 101, 10)],
            (91, 10, 100, 250, 1e-6))


def year_of_two_digits():
    return (epochs(lambda e, n, t, _: f"{date(t, '%y-%m-%d %H:%M:%S').replace(',', '.')} - INFO: [epoch: {e}, iter: {121000 + 50 * e + n:8,d}, "
                   "lr:(1.724e-04,)] l_pix: 1.5652e-02"), (190, 121011, 121200, 250, 1e-6))


def iters():
    return (epochs(lambda e, n, t, _: f"{date(t)} INFO: Iters: {50 * e + n}/20000 || Lr: 0.019992 || Task Loss: 3.28"), (190, 11, 200, 250, 1e-6))


def setting():
    return (epochs(lambda e, n, t, _: f"{date(t)} INFO: gradient_accumulation_iters: 4 n_iters: 100 step {50 * e + n} loss 2.5"), (190, 11, 200, 250, 1e-6))


def many_midnights():
    """... more than years can be counted for."""
    return ([f"12-31 23:00:00 step {n} loss 2.5 time per batch 0.25\n" if n % 2 else f"01-01 01:00:00 step {n} loss 2.5 time per batch 0.25\n"
             for n in range(1, 1001)], (1000, 1, 1000, 250, 1e-6))


def estimator():
    return ([f"INFO:tensorflow:loss = 2.3, step = {n} (12.500 sec)\n" for n in range(100, 2001, 100)], (1900, 101, 2000, 125, 1e-6))


def timer():
    return ([f"iter {n} || Loss: 3.71 || timer: {0.25 + n % 30 / 1e4:.4f} sec.\n" for n in range(10, 201, 10)], (191, 10, 200, 251, 0.005))


def growing(line, first=500, more=20, count=40):
    """Steps that become slower line by line are none of a time since a start."""
    times = [first + more * k for k in range(count)]
    return [line(k + 1, ms) + "\n" for k, ms in enumerate(times)], (count, 1, count, sum(times) / count, 0.03)


def growing_dt():
    return growing(lambda n, ms: f"step {n:5d} | loss: 2.3 | dt: {ms / 1000:.3f}s | norm: 1.0")


def growing_ms():
    return growing(lambda n, ms: f"step {n} loss 2.3 time: {ms:.1f} ms")


def growing_elapsed():
    return growing(lambda n, ms: f"step={n} loss=2.3 elapsed_time={ms:.1f} ms", 500, 30)


def growing_seconds():
    return growing(lambda n, ms: f"step {n} loss 2.3 time {ms / 1000:.2f}s")


def growing_with_speed():
    return growing(lambda n, ms: f"step {n} loss 2.3 time {ms / 1000:.2f}s {1e6 / ms:.1f} tok/s", 100, 100, 30)


def late_start():
    """What has passed includes a long preparation before the first step, as the dates say."""
    return ([f"{date(0.25 * n)} step {n} loss 2.5 time {30 + 0.25 * n:.2f} s\n" for n in range(10, 201, 10)] +
            [f"{date(0.25 * n)} step {n} loss 2.5 time {30 + 0.25 * n:.2f} s\n" for n in range(210, 401, 10)], (390, 11, 400, 250, 1e-6))


def per_batch():
    return ([f"epoch 1  step {n}  loss 0.14 - time per batch {19.5 + n % 2:.4f}\n" for n in range(1, 21)], (20, 1, 20, 20000, 1e-6))


def batch_cost():
    return (epochs(lambda e, n, t, _: f"{date(t)} - INFO - epoch: {e}, batch_id: {n}, AUC:0.5, loss:0.5, avg_reader_cost: 0.00058 sec, "
                   "avg_batch_cost: 0.25000 sec, ips: 128"), (164, 10, 50, 250, 1e-6))


def between_lines():
    lines = epochs(lambda e, n, t, _: f"- Train | Epoch {e + 1} | {n}/53 | 4.0 it/sec | Loss 0.2343")
    at = lines.index(next(line for line in lines if "Epoch 2" in line))
    return lines[:at] + ["- Valid | Epoch 1 | 10/20 | 9.0 it/sec | Loss 0.3\n"] + lines[at:], (200, 10, 209, 250, 1e-6)


def behind_zeros():
    return ["\0" * 11000 + "\n"] + [f"{date(k / 4)} step {k} loss 2.5\n" for k in range(40)], (39, 1, 39, 250, 1e-6)


def without_numbers():
    return [f"{date(k / 4)} train loss 2.5\n" for k in range(40)], None


LOGS = [cumulative, cumulative_with_dates, of_the_line, of_the_step, elapsed, elapsed_hours, named_total, twice_an_epoch, once_an_epoch, source_position,
        all_epochs_numbered, dllogger, answers, evaluated, nulls, mmcv, scalars, year_of_two_digits, iters, setting, many_midnights, estimator, timer, growing_dt, growing_ms, growing_elapsed,
        growing_seconds, growing_with_speed, late_start, per_batch, batch_cost, between_lines,
        behind_zeros]


if __name__ == "__main__":
    log_check.main(LOGS, lambda folder: log_check.write(folder, [*LOGS, without_numbers]))
