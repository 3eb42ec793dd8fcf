#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes logs of training programs in the forms that these print, dumps of the NCCL Inspector and execution traces of Chakra, and
compares what tacho read of them with what was put in. usage: logs.py make FOLDER | check FOLDER TACHO | chakra FILE RUN"""
import graphlib, json, os, sqlite3, struct, subprocess, sys, time

from formats import field, varint

START = 1716426848  # 2024-05-23 01:14:08 UTC


def stamp(seconds, point=""):
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(seconds)))
    return text + (f"{point}{round(seconds % 1 * 1000):03}" if point else "")


# ---- texts: of each the lines, and what has to come out: steps, first and last index, ms of one, tokens, samples, series -------------


def megatron():
    lines = ["setting number of micro-batches to constant 8", f"[before the start of training step] datetime: {stamp(START)} "]
    for i in range(10, 201, 10):
        lines.append(f" [{stamp(START + 2.5 * i)}] iteration {i:8d}/  500000 | consumed samples: {256 * i:12d} | elapsed time per iteration "
                     f"(ms): 2500.0 | throughput per GPU (TFLOP/s/GPU): 321.1 | learning rate: 1.200000E-06 | global batch size:   256 | "
                     f"lm loss: {12 - 0.01 * i:.6E} | loss scale: 1.0 | grad norm: 23.911 | number of skipped iterations:   0 | "
                     "number of nan iterations:   0 |")
        lines += ["(min, max) time across ranks (ms):", "    optimizer-inner-step ...........................: (12.34, 15.60)"]
        if i == 100:
            lines.append(" validation loss at iteration 100 | lm loss value: 1.05E+01 | lm loss PPL: 3.6E+04 |")
    return lines, (191, 10, 200, 2500, None, 256, {"loss": (20, 10, 11.9), "eval loss": (1, 10.5, 10.5),
                                                   "TFLOP/s per device": (20, 321.1, 321.1), "gradient norm": (20, 23.911, 23.911)})


def deepspeed():
    lines = []
    for k in range(1, 11):
        at = stamp(START + 5 * k + 0.5, ",")
        lines += [f"[{at}] [INFO] [logging.py:96:log_dist] [Rank 0] step={10 * k}, skipped=0, lr=[1e-05, 1e-05], mom=[(0.9, 0.999), (0.9, 0.999)]",
                  f"[{at}] [INFO] [timer.py:260:stop] epoch=0/micro_step={40 * k}/global_step={10 * k}, RunningAvgSamplesPerSec=51.2, "
                  "CurrSamplesPerSec=52.0, MemAllocated=10.1GB, MaxMemAllocated=20.0GB",
                  f"[{at}] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 310.25 | bwd: 120.50 | step: 34.00"]
    return lines, (90, 11, 100, 500, None, 26, {"learning rate": (10, 1e-5, 1e-5), "samples per second": (10, 52, 52),
                                                "logged memory": (10, 20 * 2**30, 20 * 2**30)})


def pipeline():
    return ([f"steps: {10 * k} loss: {7 - 0.1 * k:.4f} iter time (s): 1.250 samples/sec: 104.0" for k in range(1, 11)],
            (91, 10, 100, 1250, None, 130, {"loss": (10, 6, 6.9)}))


def torchtitan():
    return ([f"[rank0]:[titan] {stamp(START + 4 * k + 0.25, ',')} - root - INFO - \x1b[31mstep: {k:2}  \x1b[32mloss: {8 - 0.1 * k:7.4f}  "
             "\x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory: 32.50GiB(40.80%)  \x1b[34mtps: 6,123  \x1b[36mtflops: 351.10  "
             "\x1b[35mmfu: 35.51%\x1b[0m" for k in range(1, 11)],
            (9, 2, 10, 4000, None, None, {"tokens per second and device": (10, 6123, 6123), "logged MFU": (10, 35.51, 35.51),
                                          "logged memory": (10, 32.5 * 2**30, 32.5 * 2**30), "loss": (10, 7, 7.9)}))


def nanogpt():
    return (["step 0: train loss 10.9, val loss 10.95"] + [f"iter {k}: loss {10 - 0.1 * k:.4f}, time 123.45ms, mfu 12.34%" for k in range(30)],
            (30, 0, 29, 123.45, None, None, {"eval loss": (1, 10.95, 10.95), "loss": (30, 7.1, 10.9)}))


def llmc():
    return ([f"step {k:4d}/19560 | loss {10 - 0.1 * k:.6f} (+nanz)| norm 13.1234 (+nanz)| lr 8.57e-06 | 125.00 ms | 45.2% bf16 MFU | 4194304 tok/s"
             for k in range(1, 31)], (30, 1, 30, 125, 524288, None, {"tokens per second": (30, 4194304, 4194304), "loss": (30, 7, 9.9)}))


def nanotron():
    return ([f"[INFO|DP=0|PP=0|TP=0|node-1]: iteration: {k} / 1000 | consumed_tokens: {0.5 * k:.4g}M | elapsed_time_per_iteration_ms: 1.25K | "
             f"tokens_per_sec: 400K | tokens_per_sec_per_gpu: 50K | global_batch_size: 256 | lm_loss: 9.5 | lr: 0.0003 | "
             "model_tflops_per_gpu: 400 | hardware_tflops_per_gpu: 420 | grad_norm: 1.5" for k in range(1, 11)],
            (10, 1, 10, 1250, 500000, 256, {"TFLOP/s per device": (10, 400, 400)}))


def nemo():
    return ([f"Training epoch 0, iteration {k}/99 | lr: 1.5e-05 | global_batch_size: 512 | global_step: {k} | reduced_train_loss: {11 - 0.1 * k:.4f} | "
             f"train_step_timing in s: 6.950 | consumed_samples: {512 * (k + 1)}" for k in range(20)],
            (20, 0, 19, 6950, None, 512, {"loss": (20, 9.1, 11)}))


def lightning():
    lines = ["\r".join(f"Epoch {e}:  {k}%|\u2588\u258f        | {k}/100 [{4 * k // 300:02d}:{4 * k // 5 % 60:02d}<01:48,  1.25it/s, v_num=3, "
                       f"train_loss={3 - 0.01 * (100 * e + k):.3f}]" for k in range(10, 101, 10)) for e in range(2)]
    return lines, (191, 10, 200, 800, None, None, {"loss": (20, 1, 2.9)})


def hugging_face():
    lines = []
    for k in range(1, 51):
        lines.append(f"  {k}%|\u2588| {k}/1000 [00:{k:02d}<16:30,  1.00s/it]\r")
        if k % 10 == 0:
            lines.append(f"{{'loss': {3 - 0.01 * k:.4f}, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.1}}")
    lines.append("{'train_runtime': 50.0, 'train_samples_per_second': 99.0, 'train_loss': 2.75, 'epoch': 0.5}")
    return lines, (50, 1, 50, 1000, None, None, {"loss": (5, 2.5, 2.9)})


def plain():
    return ([f"{stamp(START + 0.5 * k, ',')} INFO train.py:33 step {k} loss {3 - .01 * k:.4f}" for k in range(100)],
            (99, 1, 99, 500, None, None, {"loss": (100, 2.01, 3)}))


def json_lines():
    return ([json.dumps({"step": k, "loss": 3 - .01 * k, "_timestamp": START + 0.5 * k, "tokens_per_second": 1000}) for k in range(50)],
            (49, 1, 49, 500, 500, None, {"loss": (50, 2.51, 3)}))


def restart():
    """From a checkpoint: steps 6 to 8 are there twice, and the hole between is no step."""
    at = [(k, 0.5 * k) for k in range(1, 9)] + [(k, 600 + 0.5 * k) for k in range(6, 21)]
    return ([f"{stamp(START + t, '.')} step {k} | loss 1.5 | lr 0.001" for k, t in at],
            (21, 2, 20, 500, None, None, {"loss": (23, 1.5, 1.5)}))


def epochs():
    """The number of the step begins anew in each epoch, with few lines in it."""
    return ([f"{stamp(START + 60 * e + k / 2, '.')} epoch {e} step {k} | loss 1.5" for e in range(4) for k in range(10, 41, 10)],
            (120, 11, 40, 500, None, None, {"loss": (16, 1.5, 1.5)}))


def maxtext():
    """JAX: the time of a step is named `seconds` alone; other seconds are sums."""
    return ([f"completed step: {k}, seconds: 2.500, TFLOP/s/device: 150.5, Tokens/s/device: 3276.8, total_weights: 65536, loss: {9 - 0.1 * k:.3f}, "
             f"total_seconds: {2.5 * k}" for k in range(20)],
            (20, 0, 19, 2500, None, None, {"loss": (20, 7.1, 9), "TFLOP/s per device": (20, 150.5, 150.5),
                                           "tokens per second and device": (20, 3276.8, 3276.8)}))


def composer():
    """A step in several lines, of which some hold other counts."""
    lines = []
    for k in range(1, 11):
        lines += [f"{stamp(START + 2 * k, ',')}: rank0[7][MainThread]: INFO: composer: [batch={k}/4800]:", f"\t Train time/batch: {k - 1}",
                  f"\t Train time/sample: {640 * (k - 1)}", f"\t Train loss/train/total: {8 - 0.1 * k:.4f}",
                  "\t Train throughput/tokens_per_sec: 5000.0"]
    return lines, (9, 2, 10, 2000, 10000, None, {"loss": (10, 7, 7.9), "tokens per second": (10, 5000, 5000)})


def fairseq():
    return ([f"{stamp(START + 4 * k)} | INFO | train_inner | epoch 001:    {100 * k} / 5000 loss={9 - 0.1 * k:.3f}, ppl=500.1, wps=1024, ups=0.25, "
             f"wpb=4096, bsz=64, num_updates={k}, lr=0.0001, gnorm=1.5, train_wall=3, gb_free=20.1, wall=70" for k in range(1, 11)],
            (10, 1, 10, 4000, 4096, None, {"loss": (10, 8, 8.9), "gradient norm": (10, 1.5, 1.5)}))


def lightning_csv():
    """A table: rows of training, of the learning rate and of validation, whose other cells are empty."""
    lines = ["epoch,iter_time,lr,step,train_acc_step,train_loss_epoch,train_loss_step,val_loss"]
    for k in range(9, 100, 10):
        lines += [f"0,,0.001,{k},,,,", f"0,0.25,,{k},0.5,,{3 - 0.01 * k:.4f},"]
    return lines + ["0,,,99,,2.5,,2.125"], (91, 9, 99, 250, None, None, {"loss": (10, 2.01, 2.91), "learning rate": (10, 0.001, 0.001),
                                                                        "eval loss": (1, 2.125, 2.125)})


def tracker_csv():
    """The export of an experiment tracker: quotes, and a time of each row."""
    return (['"_timestamp","Step","run-1 - train/loss","run-1 - train/loss__MAX","note, of a person"'] +
            [f'{START + 2 * k}.5,"{k}",{5 - 0.1 * k:.3f},9,"a, b"' for k in range(20)],
            (19, 1, 19, 2000, None, None, {"loss": (20, 3.1, 5)}))


def mmengine():
    """The step in brackets begins anew in each epoch; a time without a unit is in seconds beside the time that is left; memory has none."""
    lines = []
    for e in range(1, 3):
        for k in range(50, 201, 50):
            at = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(START + 100 * e + k // 2))
            lines.append(f"{at} - mmengine - INFO - Epoch(train)  [{e}][{k:4d}/200]  lr: 1.0000e-02  eta: 0:10:11  time: 0.2500  data_time: "
                         f"0.0123  memory: 2345  grad_norm: 5.5  loss: {9 - 0.01 * (200 * e + k):.4f}  loss_cls: 0.5")
        lines.append(f"{at} - mmengine - INFO - Epoch(val)  [{e}][ 50/100]    eta: 0:00:11  time: 0.1000  data_time: 0.0123  memory: 100")
    return lines, (351, 50, 400, 250, None, None, {"loss": (8, 3, 6.5), "gradient norm": (8, 5.5, 5.5)})


def pictures():
    """PyTorch's example for ImageNet: the last line of an epoch is not its last step; tests have the same form."""
    lines = []
    for e in range(2):
        lines += [f"Epoch: [{e}][{k:5d}/45]\tTime  0.500 ( 0.567)\tData  0.001 ( 0.010)\tLoss {9 - 0.1 * (4 * e + k // 10):.4e} (6.9e+00)\t"
                  "Acc@1   0.39 (  0.20)" for k in range(0, 41, 10)]
        lines.append("Test: [ 10/20]\tTime  0.100 ( 0.200)\tLoss 2.5000e+00 (2.5e+00)\tAcc@1   0.39 (  0.20)")
    return lines, (86, 0, 85, 500, None, None, {"loss": (10, 8.2, 9), "eval loss": (2, 2.5, 2.5)})


def timm():
    return ([f"Train: 0 [{k:4d}/312 ({k / 3.12:3.0f}%)]  Loss: {7 - 0.01 * k:.3f} (6.93)  Time: 0.250s, 1024.00/s  (0.345s,  700.10/s)  "
             "LR: 1.000e-06  Data: 0.001 (0.010)" for k in range(0, 51, 10)],
            (51, 0, 50, 250, None, None, {"loss": (6, 6.5, 7), "learning rate": (6, 1e-6, 1e-6)}))


def detectron2():
    """A date without a year, across a leap day."""
    return ([f"[{time.strftime('%m/%d %H:%M:%S', time.gmtime(1709251000 + 10 * k))} d2.utils.events]: \x1b[0m eta: 0:01:02  iter: {20 * k - 1}  "
             f"total_loss: {4 - 0.1 * k:.3f}  loss_cls: 0.5  last_time: 0.55  data_time: 0.0118  lr: 0.0025  max_mem: 2345M" for k in range(1, 21)],
            (380, 20, 399, 500, None, None, {"loss": (20, 2, 3.9)}))


def clu():
    """JAX: a date of absl, and steps per second; the number of the step has no name."""
    return ([f"I0523 01:14:{k:02d}.500000 140123 logging_writer.py:48] [{100 * k}] learning_rate=0.001, loss={5 - 0.1 * k:.4f}, steps_per_sec=80.0"
             for k in range(1, 21)], (1901, 100, 2000, 12.5, None, None, {"loss": (20, 3, 4.9), "learning rate": (20, 0.001, 0.001)}))


def llama_factory():
    """JSON lines whose only time is what has passed since the start."""
    return ([json.dumps({"current_steps": 10 * k, "total_steps": 1000, "loss": 3 - 0.1 * k, "lr": 5e-05, "epoch": 0.1, "percentage": 1.0,
                         "elapsed_time": ("1 day, 0:0" if k > 5 else "23:5") + f"{(5 + k) % 10}:30", "remaining_time": "0:20:00",
                         "throughput": 1234.5, "total_tokens": 12345}) for k in range(1, 11) if k != 5],
            (90, 11, 100, 6000, None, None, {"loss": (9, 2, 2.9)}))


def swift():
    return ([repr({"loss": 3 - 0.1 * k, "grad_norm": 1.5, "learning_rate": 1e-4, "memory(GiB)": 14.5, "train_speed(iter/s)": 0.5, "epoch": 0.01,
                   "global_step/max_steps": f"{5 * k}/200", "percentage": "2.50%", "elapsed_time": "10s", "remaining_time": "6m 30s"})
             for k in range(1, 11)], (46, 5, 50, 2000, None, None, {"loss": (10, 2, 2.9), "logged memory": (10, 14.5 * 2**30, 14.5 * 2**30)}))


def verl():
    return ([f"(TaskRunner pid=4242) step:{k} - actor/pg_loss:{0.01 * k:.3f} - actor/grad_norm:0.5 - timing_s/gen:8.25 - timing_s/step:12.5 - "
             "perf/throughput:1024.5" for k in range(1, 11)], (10, 1, 10, 12500, None, None, {"loss": (10, 0.01, 0.1)}))


def megatron_deepspeed():
    return ([f" iteration {k:8d}/  292968 | consumed samples: {512 * k:12d} | consumed tokens: {1048576 * k:12d} | elapsed time per iteration (s): "
             f"32.00 | learning rate: 3.7E-07 | global batch size:   512 | lm loss: {12 - 0.1 * k:.6E} | grad norm: 1.5 | samples per second: 16.000 | "
             "tokens per gpu per second (tgs): 1024.00 | TFLOPs: 105.10 |" for k in range(1, 11)],
            (10, 1, 10, 32000, 1048576, 512, {"tokens per second and device": (10, 1024, 1024), "loss": (10, 11, 11.9)}))


def bar(step, total, seconds, rate="1.00s/it", label=""):
    """What tqdm draws, without the return in front."""
    passed, left = (f"{t // 60:02.0f}:{t % 60:02.0f}" for t in (seconds, total - step))
    return f"{label}{100 * step // total:3d}%|\u2588\u258f   | {step}/{total} [{passed}<{left},  {rate}]"


def evaluation_bars():
    """Bars of training and of evaluations differ only in their totals; a loss follows those of training."""
    lines = []
    for k in range(1, 101):
        lines.append(bar(k, 100, k) + "\r")
        if k % 10 == 0:
            lines.append(f"{{'loss': {3 - 0.01 * k:.4f}, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.1}}")
        if k % 50 == 0:
            lines += [bar(i, 400, i // 10, "10.00it/s") + "\r" for i in range(401)]
            lines.append("{'eval_loss': 2.5, 'eval_runtime': 40.0, 'epoch': 0.1}")
    return lines, (100, 1, 100, 1000, None, None, {"loss": (10, 2, 2.9), "eval loss": (2, 2.5, 2.5)})


def nested_bars():
    """The bar of an epoch has the loss; the one of epochs around it counts no steps."""
    lines = []
    for e in range(1, 6):
        lines += [bar(k, 100, k // 2, f"2.00it/s, loss={9 - 0.01 * (100 * e + k):.2f}") + "\r" for k in range(10, 101, 10)]
        lines.append(bar(e, 5, 60 * e, "60.00s/it", "Epochs: "))
    return lines, (491, 10, 500, 500, None, None, {"loss": (50, 3, 7.9)})


def named_bars():
    """The label of a bar names steps: what is in front of the percent sign is none."""
    lines = [bar(k, 160, k // 20, f"20.00it/s, lr=0.0001, step_loss={3 - 0.01 * k:.2f}", "Steps: ") + "\r" for k in range(161)]
    return lines, (161, 0, 160, 50, None, None, {"learning rate": (161, 1e-4, 1e-4)})


def generator():
    """The name of a program is no word of its bar: the bar has a loss."""
    lines = [f"Generator: [{k}/200] loss {3 - 0.005 * k:.3f} time 0.12" for k in range(0, 200, 10)]
    return lines, (191, 0, 190, 120, None, None, {"loss": (20, 2.05, 3)})


def two_brackets():
    """Epoch and step in brackets, one behind the other."""
    lines = [f"Train: [{e}/2][{k}/50]\ttime 0.3500 (0.3500)\tloss 6.9 (6.9)\tlr 0.001" for e in range(2) for k in range(0, 50, 10)]
    return lines, (91, 0, 90, 350, None, None, {})


def late_losses():
    """The bar of an evaluation is drawn at its end, too, and then the loss of a step before it is printed."""
    lines = []
    for k in range(1, 101):
        lines += [bar(k, 100, k) + "\r", "{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.1}"]
        if k % 25 == 0:
            lines += [bar(i, 40, i // 10, "10.00it/s") + "\r" for i in range(41)]
            lines.append("{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.1}")
    return lines, (100, 1, 100, 1000, None, None, {})


def checking_bars():
    """Bars of evaluations show a loss, too; one of both names is of training."""
    lines = []
    for e, word in enumerate(("Val", "Valid", "EVAL", "Test", "Testing", "dev", "Inference", "Predict")):
        lines += [bar(k, 50, k, "1.00s/it, loss=2.5", f"Train {e} (val_loss 2.25): ") + "\r" for k in range(1, 51)]
        lines += [bar(k, 20, k // 10, "10.00it/s, loss=3.5", f"{word} {e}: ") + "\r" for k in range(21)]
    return lines, (400, 1, 400, 1000, None, None, {"loss": (400, 2.5, 2.5)})


def silent_bars():
    """Nothing but a bar, which has no loss."""
    return [bar(k, 200, k // 4, "4.00it/s", "Epoch: ") + "\r" for k in range(1, 201)], (200, 1, 200, 250, None, None, {})


def epochs_with_loss():
    """Only the bar of epochs shows a loss."""
    lines = []
    for e in range(1, 5):
        lines += [bar(k, 60, k // 2, "2.00it/s") + "\r" for k in range(5, 61, 5)]
        lines += [bar(e - 1, 4, 30 * e, "30.00s/it, loss=2.5"), bar(e, 4, 30 * e, "30.00s/it, loss=2.5")]
    return lines, (236, 5, 240, 500, None, None, {})


def two_bars_an_epoch():
    """A bar of training, one of the evaluation, and then the losses of both."""
    lines = []
    for e in range(1, 4):
        lines += [bar(k, 60, k // 2, "2.00it/s") + "\r" for k in range(5, 61, 5)] + [bar(k, 15, k // 10, "10.00it/s") + "\r" for k in (0, 8, 15)]
        lines.append(f"Epoch {e}: train loss 2.5, val loss 3.5")
    return lines, (176, 5, 180, 500, None, None, {"loss": (3, 2.5, 2.5)})


def loading_bars():
    """What is loaded and mapped before has bars with more steps than the training has; at its end that is drawn again."""
    lines = ["loading", ""]
    lines += [bar(k, 4, 2 * k, "2.01s/it", "Loading checkpoint shards: ") for k in range(5)]
    lines += [bar(k, 5000, k // 100, "100.00it/s", "Map: ") for k in range(0, 5001, 10)]
    lines += [bar(k, 10, k) + ("{'loss': 2.5, 'learning_rate': 4.9e-05}" if k % 5 == 0 else "") for k in range(1, 11)]
    return lines + [bar(10, 10, 12)], (10, 1, 10, 1000, None, None, {"loss": (2, 2.5, 2.5)})


def month_first():
    return ([f"{time.strftime('%m/%d/%Y %H:%M:%S', time.gmtime(START + 2 * k))} - INFO - __main__ - step {k} loss 2.5" for k in range(1, 21)],
            (19, 2, 20, 2000, None, None, {"loss": (20, 2.5, 2.5)}))


def whole_seconds(first, every):
    """Many lines have one second, of which the first is not whole: its steps and those of the last one have no time."""
    def log():
        lines = [f"{stamp(START + (35 + k) / 50)} INFO step {k} loss 2.5" for k in range(0, 300, every)]
        return lines, (250, first, first + 249, 20, None, None, {"loss": (300 // every, 2.5, 2.5)})
    log.__name__ = f"whole_seconds_{every}"
    return log


def says(name, line, first=1, ms=20):
    """A log of 50 lines: `line` makes one of the number of a step, which takes 20 ms."""
    def log():
        return [line(k) for k in range(50)], (50 - first, first, 49, ms, None, None, {"loss": (50, 2.5, 2.5)})
    log.__name__ = "says_" + name
    return log


TIMES = [says("ms_per_step", lambda k: f"epoch 0 | step {k} | loss 2.5 | 20.0 ms/step", 0),
         says("took_per_step", lambda k: f"step {k} loss 2.5 took 20.0ms/step", 0),
         says("seconds_per_step", lambda k: f"step: {k} loss: 2.5 sec/step: 0.02", 0),
         says("steps_per_second", lambda k: f"Iteration {k} loss 2.5 (50.0 it/s)", 0),
         says("time_ms", lambda k: json.dumps({"iter": k, "loss": 2.5, "time_ms": 20.0}), 0),
         says("time", lambda k: json.dumps({"step": k, "loss": 2.5, "time": START + k}), ms=1000),
         says("ts", lambda k: json.dumps({"step": k, "loss": 2.5, "ts": START + k}), ms=1000),
         says("wall_time", lambda k: json.dumps({"step": k, "loss": 2.5, "wall_time": START + k}), ms=1000),
         says("timestamp_ms", lambda k: json.dumps({"step": k, "loss": 2.5, "timestamp": 1000 * START + 20 * k})),
         says("epoch_seconds", lambda k: f"{START + k // 50}.{20 * k % 1000:03d} INFO step {k} loss 2.5"),
         says("epoch_seconds_in_brackets", lambda k: f"[{START + k // 50}.{20 * k % 1000:03d}000] step {k} loss 2.5")]


def begins_with(name, *first):
    """A log in front of which something else was printed."""
    def log():
        lines, wanted = plain()
        return [*first, *lines], wanted
    log.__name__ = "begins_with_" + name
    return log


BEGINNINGS = [begins_with("nothing", ""), begins_with("brace", "{", '  "lr": 0.1', "}"),
              begins_with("warning", "<frozen runpy>:128: RuntimeWarning: 'train' found in sys.modules"),
              begins_with("bracket", f"[{stamp(START, ',')}][exporter][WARNING] - not supported")]

def deepspeed_settings():
    """DeepSpeed counts steps beside a program that prints them itself, on two ranks; its settings, and which step overflowed or is saved, are
    no steps."""
    lines = ["setting grad_accum_steps=16", '    "end_profile_step": 5,']
    for k in range(0, 21):
        at = stamp(START + 5 * k, ",")
        lines.append(f"[{at}] [INFO] [logging.py:128:log_dist] [Rank 0] step={k}, skipped=0, lr=[5e-05], mom=[(0.9, 0.95)]")
        if k == 0:
            lines += [f"[{at}] [INFO] [config.py:1003:print]   eigenvalue_max_iter .......... 100",
                      f"[{at}] [INFO] [config.py:1003:print]   steps_per_print .............. 1"]
            continue
        lines += [f"Grad overflow on iteration {k - 1}", f"[{at}] [INFO] Saving model checkpoint at step {10 * k}"]
        lines += [f"[Step {k - 1}/100] Loss: {5 - 0.01 * k:.4f} | Tokens/s: 200.0 | GPU Mem (GB): 26.79 | Peak Mem: 33.51"] * 2
    return lines, (19, 1, 19, 5000, 1000, None, {"loss": (20, 4.8, 4.99), "tokens per second": (20, 200, 200)})


def deepspeed_chat():
    """The parts of a step have times, too; the engine of the actor has a rate of its own."""
    lines = []
    for k in range(20):
        lines += [f"epoch: 0|step: {k}|ppo_ep: 1|act_loss: {0.2 + 0.01 * k:.4f}|cri_loss: 0.12|unsuper_loss: 0.0", "average reward score: 0.5",
                  "|E2E latency=4.00s |Gather latency=0.00s (0.00%) |Generate time=2.26s (65.81%) |Training time=1.52s (31.46%) |Others=0.22 "
                  "(2.73%)|CurSamplesPerSec=16.00 |AvgSamplesPerSec=15.00"]
        if k % 10 == 8:
            lines += [f"[{stamp(START + 4 * k, ',')}] [INFO] [logging.py:96:log_dist] [Rank 0] step={k + 2}, skipped=5, lr=[1.4e-06], mom=[(0.9, 0.95)]",
                      f"[{stamp(START + 4 * k, ',')}] [INFO] [timer.py:199:stop] epoch=0/micro_step={k + 2}/global_step={k + 2}, "
                      "RunningAvgSamplesPerSec=86.0, CurrSamplesPerSec=92.0, MemAllocated=10.77GB, MaxMemAllocated=20.55GB",
                      "Model Parameters: 0.331 B, Latency: 0.49s, TFLOPs: 0.57, Samples/sec: 4.06, Time/seq 0.25s, Batch Size: 2"]
    return lines, (20, 0, 19, 4000, None, 64, {"loss": (20, 0.2, 0.39), "samples per second": (20, 16, 16)})


def swift_lines(count):
    """ms-swift since version 4: whole seconds since the start, and a mean time that has its fractions. Steps take 2.5 and 3.5 s in turn."""
    for k in range(1, count + 1):
        passed = 3 * k - 0.5 * (k % 2)
        yield {"loss": 3 - 0.1 * k, "grad_norm": 1.5, "learning_rate": 1e-4, "global_step/max_steps": f"{k}/{count}",
               "elapsed_time": f"{passed // 60:.0f}m {passed % 60:.0f}s" if passed >= 60 else f"{passed:.0f}s", "remaining_time": "1h 6m 30s",
               "tokens_per_gpu_per_sec": 250.0, "tokens_global_per_sec": 2000.0, "tokens_this_step": 6000, "memory(GiB)": 14.5,
               "train_speed(s/it)": round(passed / k, 6)}


SWIFT = (24, 1, 24, 3000, 6000, None, {"loss": (24, 0.6, 2.9), "tokens per second": (24, 2000, 2000),
                                       "tokens per second and device": (24, 250, 250)})


def swift_json():
    """The logging.jsonl of a run that ended: what was trained in all, and the state of the trainer."""
    lines = [json.dumps(line) for line in swift_lines(24)]
    lines.append(json.dumps({"train_runtime": 72.0, "train_loss": 1.5, "global_step/max_steps": "24/24", "elapsed_time": "1m 12s"}))
    return lines + [json.dumps({"best_metric": None, "global_step": 24, "log_history": [{"loss": 2.9, "step": 1}] * 200})], SWIFT


def swift_bars():
    """Beside lines with the number of the step the bars count nothing, whatever they are of."""
    lines = ["gradient_accumulation_steps=16,", "logging_steps=500,"]
    lines += [bar(k, 209, 0, "90.00it/s", "Weights: ") for k in range(210)]
    for k, line in enumerate(swift_lines(24), 1):
        text = {key: value if isinstance(value, str) else str(value) for key, value in line.items()}
        lines += [bar(k, 24, 3 * k, "9.00s/it", "Train: ") + (repr(text) if k % 7 == 0 else "\n" + repr(text))]
    return lines + [bar(24, 24, 75, "3.01s/it", "Train: ")], SWIFT


def progress_lines():
    """A bar that is logged as lines of their own has the time; the job began anew. What is saved is no step."""
    lines = []
    for _ in range(2):
        for k in range(0, 1001, 100):
            passed = 150 * k // 100
            lines += [f"Step {k}: grad_norm=2.0833, loss={1 - k / 2000:.4f}, param_norm=1377.8652",
                      f"05:14:50.351 [I] Progress on: {k}it/200kit rate:1.5s/it remaining:85:30:16 elapsed:{passed // 60:02d}:{passed % 60:02d} "
                      "postfix:- (2490449:tqdm_logging.py:145)"]
            if k % 500 == 0:
                lines += [f"05:47:25.181 [I] [process=0] Saving checkpoint at step {k}",
                          "05:47:26.180 [I] Deleted step 7.   (2490449:deleter.py:114)",
                          f"06:14:01.892 [I] Deleting Checkpoint[step={k} | time=2026-01-04 21:47:42.413855+00:00]: (Reason: old checkpoint)."]
    return lines, (2000, 1, 1000, 1500, None, None, {"loss": (22, 0.5, 1)})


def last_bars():
    """A bar that is kept as it was at its end counts all steps of its epoch; drawn again it is the same."""
    lines = []
    for e in range(1, 4):
        lines += [bar(935, 935, 70, f"12.50it/s, loss={7 - e / 2}", f"Epoch {e}/3: ")] * 2
        lines.append(bar(100, 100, 5, "20.00it/s", "Validation: "))
    return lines, (2805, 1, 2805, 80, None, None, {"loss": (3, 5.5, 6.5)})


def two_processes():
    """Two nodes write into one log, the second one later, but for where it catches up; a restart goes back, too, and has both again."""
    def line(k, passed):
        return json.dumps({"current_steps": k, "total_steps": 900, "loss": 0.75, "elapsed_time": f"0:{passed // 60:02d}:{passed % 60:02d}"})
    lines = []
    for first, last in ((10, 210), (160, 310)):
        for k in range(first, last, 10):
            lines.append(line(k, 2 * k))
            if k >= first + 20:
                lines.append(line(k - 20, 2 * k + 9))
            if k in (100, 250):
                lines += [line(k - 10, 2 * k + 19), line(k, 2 * k + 19)]
    return lines, (330, 11, 300, 2000, None, None, {})


def llmc_table():
    """The settings say the tokens of a step; the rate is smoothed."""
    return (["| learning rate (LR)    | 6.000000e-04                                       |",
             "| total batch size      | 524288                                             |"] + llmc()[0][:1] +
            [line.replace("4194304 tok", "4250000 tok") for line in llmc()[0][1:]], llmc()[1][:6] + ({},))


def nano_gpt_tokens():
    return ["tokens per iteration will be: 491,520"] + nanogpt()[0], (30, 0, 29, 123.45, 491520, None, {})


def olmo():
    """A step in several lines; tokens so far are those of the whole run, their rate that of one device."""
    lines = []
    for k in range(1, 21):
        lines += [f"{stamp(START + 2 * k, '.')}\tnode:0\tolmo.train:979\tINFO\t[step={k}/7630,epoch=0]", f"    train/CrossEntropyLoss={9 - 0.1 * k:.3f}",
                  "    throughput/total_training_Gflops=656,610,477", f"    throughput/total_tokens={2097152 * k:,}",
                  "    throughput/device/tokens_per_second=48,738"]
    return lines, (19, 2, 20, 2000, 2097152, None, {"tokens per second and device": (20, 48738, 48738), "loss": (20, 7, 8.9)})


def tabs():
    return ["step\tloss\tstep_time"] + [f"{k}\t{5 - 0.1 * k:.1f}\t0.25" for k in range(1, 21)], (20, 1, 20, 250, None, None, {"loss": (20, 3, 4.9)})


LOGS = [*BEGINNINGS, *TIMES, evaluation_bars, nested_bars, named_bars, generator, two_brackets, late_losses, checking_bars, silent_bars, epochs_with_loss, two_bars_an_epoch, loading_bars, month_first, whole_seconds(16, 1), whole_seconds(21, 10), deepspeed_settings, deepspeed_chat, swift_json, swift_bars, progress_lines, last_bars, two_processes, epochs, llmc_table,
        nano_gpt_tokens, olmo, tabs, mmengine, pictures, timm, detectron2, clu, llama_factory, swift, verl, megatron_deepspeed, megatron, deepspeed, pipeline, torchtitan, nanogpt, llmc, nanotron, nemo, lightning, hugging_face, plain, json_lines, restart, maxtext,
        composer, fairseq, lightning_csv, tracker_csv]

# ---- event files of TensorBoard ----------------------------------------------------------------------------------------------------


def checksum(data):
    """CRC-32C, bit by bit, masked as records of TensorFlow are."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", (crc >> 15 | crc << 17 & 0xffffffff) + 0xa282ead8 & 0xffffffff)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def scalar(tag, value):
    return field(1, field(1, tag) + varint(2 << 3 | 5) + struct.pack("<f", value))


def tensor(tag, value):
    content = field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value))
    return field(1, field(1, tag) + field(9, field(1, field(1, "scalars"))) + field(8, content))


def tfevents():
    out = record(field(1, float(START)) + field(3, "brain.Event:2"))
    for k in range(40):
        step = field(2, k) if k else b""
        out += record(field(1, START + 0.5 * k) + step + field(5, scalar("train/loss", 4 - 0.0625 * k)))
        out += record(field(1, START + 0.5 * k + 0.01) + step + field(5, tensor("throughput", 1024.0) + scalar("lr", 0.5)))
        out += record(field(1, START + 0.5 * k + 0.02) + step + field(5, field(1, field(1, "weights") + field(5, b"no scalar"))))
    return out


# ---- the NCCL Inspector ----------------------------------------------------------------------------------------------------------------


def inspector(folder):
    """Four ranks, 30 all-reduces of 1 MiB; rank 2 comes 300 us late to each. Then the same without times, in the two layouts."""
    start = 1748030377748202
    meta = {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "profiler_plugin", "hostname": "node-1"}

    def perf(k, us, at=None):
        body = {"coll": "AllReduce", "coll_sn": k, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": us, "coll_busbw_gbs": 1.5}
        if at:
            body["event_trace_ts"] = {"coll_start_ts": at, "kernel_events": [{"channel_id": 0, "kernel_start_ts": at, "kernel_stop_ts": at + us}]}
        return body

    os.makedirs(f"{folder}/inspector")
    for rank in range(4):
        head = {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 4, "nnodes": 1}
        late = 300 * (rank == 2)
        rows = [{"header": head, "metadata": {**meta, "pid": 70 + rank, "dump_timestamp_us": start + 10**6},
                 "coll_perf": perf(k, 1300 - late, start + 2000 * k + late)} for k in range(30)]
        with open(f"{folder}/inspector/node-1-pid{70 + rank}.log", "w") as f:
            f.write("".join(json.dumps(row, indent=rank or None) + "\n" for row in rows))
    head = {"id": "0xabc", "rank": 1, "n_ranks": 2, "nnodes": 1}
    rows = []
    for dump in range(3):
        rows.append({"header": head, "metadata": {**meta, "pid": 9, "dump_timestamp_us": start + 10**6 * dump},
                     "dump_stats": {"coll_records": 5, "coll_dropped_since_last_dump": 3 * (dump == 1)}})
        rows += [{"coll_perf": perf(10 * dump + k, 1000)} for k in range(5)]
        rows += [{"p2p_perf": {"p2p": "Send", "p2p_sn": dump, "p2p_peer": 3, "p2p_msg_size_bytes": 4096, "p2p_exec_time_us": 50}},
                 {"proxy_trace": {"record_type": "proxy_op"}}]
    with open(f"{folder}/marker.log", "w") as f:
        f.write("".join(json.dumps(row) + "\n" for row in rows))


# ---- Chakra ----------------------------------------------------------------------------------------------------------------------------


def chakra():
    """Host 100 us, GEMM 300 after it, all-reduce 200 and another GEMM 50 after that; two nodes wait for each other."""

    def message(body):
        return varint(len(body)) + body

    def value(name, number, content):
        return field(10, field(1, name) + field(number, content))

    out = message(field(1, "0.0.4"))
    out += message(field(2, "host op") + field(3, 4) + field(7, 100) + value("is_cpu_op", 27, 1))
    out += message(field(1, 1) + field(2, "gemm") + field(3, 4) + field(5, 0) + field(7, 300) + value("num_ops", 9, 1000))
    out += message(field(1, 2) + field(2, "nccl") + field(3, 7) + field(5, varint(1)) + field(7, 200) + value("comm_type", 9, 0) +
                   value("comm_size", 9, 4096))
    out += message(field(1, 3) + field(2, "gemm2") + field(3, 4) + field(4, varint(1) + varint(77)) + field(7, 50))
    out += message(field(1, 4) + field(2, "a") + field(3, 4) + field(5, 5) + field(7, 50))
    return out + message(field(1, 5) + field(2, "b") + field(3, 4) + field(5, 4) + field(7, 50))


def make(folder):
    os.makedirs(folder)
    for log in LOGS:
        with open(f"{folder}/{log.__name__}.log", "w") as f:
            f.write("\n".join(log()[0]) + "\n")
    put = {"events.out.tfevents.1.node": tfevents(), "graph.et": chakra(), "cut.tfevents": tfevents()[:2000],
           "untimed.log": b"".join(b"step %d loss 2.5\n" % k for k in range(30)),
           "nan.log": b"".join(b"iter %d: loss %s, time 100.00ms\n" % (k, b"nan" if k > 5 else b"2.0") for k in range(10)),
           "prose.txt": b"Step 1: measure the loss. Step 2: wait 30 s.\n" * 50,
           "none.tfevents": record(field(1, 1.0) + field(3, "brain.Event:2")),
           "rounded.log": "".join(repr({**line, "train_speed(s/it)": f"{line['train_speed(s/it)']:.4g}"}) + "\n"
                                  for line in swift_lines(1000)).encode(),
           "loads.log": "".join(bar(k, 50, k, "1.00s/it", "Loading weights: ") + "\r" for k in range(51)).encode(),
           "unnumbered.log": b"{'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 4.75e-05, 'epoch': 0.1}\n" * 9,
           "untimed.tsv": b"step\tloss\n10\t8.5\n20\t7.5\n", "main.log": b"s:0 tel:11.0095\ns:0 trl:11.0116 lr:0.000001 norm:14.96\n",
           "log.txt": b"0 val 10.9519\n0 train 10.955011\n1 train 10.935991\n",
           "bracket.txt": b"[2026-03-02 20:15:35,218][exporter][WARNING] - not supported\n" * 9,
           "bars.log": ("learning_rate: 0.1\n" + "\r".join(bar(k, 50, 0, "500.0it/s", f"{label}: ") for label in ("Loading", "Capturing graphs")
                                                         for k in range(51)) + "\n").encode(),
           "untimed.json": json.dumps({"workload_graph": [{"Id": 1, "NodeType": 4, "data_deps": []}]}).encode()}
    for name, data in put.items():
        with open(f"{folder}/{name}", "wb") as f:
            f.write(data)
    inspector(folder)


def rows(run, sql):
    return sqlite3.connect(f"file:{run}?mode=ro", uri=True).execute(sql).fetchall()


def same(what, own, theirs):
    close = own == theirs or (isinstance(theirs, (int, float)) and own is not None and abs(own - theirs) <= 1e-6 * abs(theirs))
    if not close:
        sys.exit(f"{what}: {own} is not {theirs}")


def check(folder, tacho):
    for log in LOGS:
        name, run = log.__name__, f"{folder}/{log.__name__}.tacho"
        subprocess.run([tacho, "import", f"{folder}/{name}.log", "-o", run], check=True, capture_output=True)
        own = rows(run, 'SELECT count(*), min("index"), max("index"), avg("end" - start) / 1e6, max(tokens), max(samples) FROM step')[0]
        for what, found, wanted in zip(("steps", "first", "last", "ms", "tokens", "samples"), own, log()[1]):
            same(f"{name}: {what}", found, wanted)
        series = {n: values for n, *values in rows(run, "SELECT t.name, count(*), min(value), max(value) FROM counter c "
                                                        "JOIN track t ON t.id = c.track GROUP BY t.id")}
        for what, wanted in log()[1][6].items():
            for part in range(3):
                same(f"{name}: {what} [{part}]", series[what][part], wanted[part])


def brute_force(path, run):
    """Sums by lane of a graph in JSON; a node never begins before what it needs has ended."""
    with open(path) as f:
        nodes = json.load(f)["workload_graph"]
    timed = [n for n in nodes if "runtime" in n]
    host = sum(n["runtime"] for n in timed if n["is_cpu_op"])
    device = sum(n["runtime"] for n in timed if not n["is_cpu_op"])
    own = dict(rows(run, "SELECT t.kind, sum(dur) / 1000 FROM slice s JOIN track t ON t.id = s.track GROUP BY t.kind"))
    same("time on the host", own["thread"], host)
    same("time on the device", own["stream"], device)
    same("nodes", rows(run, "SELECT count(*) FROM slice")[0][0], len(timed))
    longest, node = {}, {n["Id"]: n for n in nodes}
    for index in graphlib.TopologicalSorter({n["Id"]: n["data_deps"] for n in nodes}).static_order():
        needs = [longest[need] for need in node[index]["data_deps"]] if index in node else []
        longest[index] = node.get(index, {}).get("runtime", 0) + max(needs, default=0)
    same("the longest chain", int(rows(run, "SELECT value FROM run WHERE key = 'source.chakra.longest_chain_ns'")[0][0]),
         1000 * max(longest.values()))


def main():
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "check":
        check(sys.argv[2], sys.argv[3])
    else:
        brute_force(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
