# SPDX-License-Identifier: Apache-2.0
"""Training programs of several kinds, each with one cause planted that makes it slow. Each times its whole loop and what was planted;
the last line of stdout is JSON: `loop` and `planted`, ms in all, and the number of steps.

usage: recipes.py NAME [FOLDER]
"""

import contextlib
import copy
import json
import math
import os
import random
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

torch.manual_seed(0)
random.seed(0)
torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("WORLD_SIZE", "1"))))
truth = {"planted": 0.0, "steps": 0}


@contextlib.contextmanager
def timed(what):
    begin = time.perf_counter()
    try:
        yield
    finally:
        truth[what] = truth.get(what, 0.0) + 1e3 * (time.perf_counter() - begin)


def spin(ms):
    """Python that computes for about so long in its own CPU time."""
    end, n = time.thread_time() + ms / 1e3, 0
    while time.thread_time() < end:
        n += 1
    return n


# ---- pictures: mixup, weights averaged parameter by parameter


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.Conv2d(width, width, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + self.second(self.norm(self.first(x)).relu())


class Average:
    """Of the weights, as loops without timm.utils.ModelEmaV3 have it."""

    def __init__(self, net, decay=0.999):
        self.net, self.decay = copy.deepcopy(net).eval(), decay

    @torch.no_grad()
    def follow(self, net):
        own = self.net.state_dict()
        for name, value in net.state_dict().items():
            own[name].copy_(own[name] * self.decay + value * (1 - self.decay) if value.is_floating_point() else value)


def averages(_):
    """An image classifier with mixup, whose weights are averaged one by one after each update: many small ones."""
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *(Residual(16) for _ in range(24)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80)
    average, criterion = Average(net), nn.CrossEntropyLoss(label_smoothing=0.1)
    data = TensorDataset(torch.randn(4 * 80, 3, 12, 12), torch.randint(0, 10, (4 * 80,)))
    with timed("loop"):
        for x, y in DataLoader(data, batch_size=4, shuffle=True, drop_last=True):
            mixed = torch.distributions.Beta(0.2, 0.2).sample()
            order = torch.randperm(len(x))
            out = net(mixed * x + (1 - mixed) * x[order])
            loss = mixed * criterion(out, y) + (1 - mixed) * criterion(out, y[order])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            with timed("planted"):
                for _ in range(4):  # of several decays
                    average.follow(net)
            truth["steps"] += 1


# ---- text: a GPT that accumulates gradients, and tokenizes in its loop


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Text(nn.Module):
    def __init__(self, words=256, width=128, layers=2, length=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens, targets=None):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) if targets is not None else None


def encode(text):
    """Bytes of pairs, one by one."""
    found, known = [], {}
    for first, second in zip(text, text[1:]):
        found.append(known.setdefault(first + second, len(known)) % 256)
    return found


def accumulates(_):
    """Four micro-steps; the text of each batch is made tokens in the loop."""
    net = Text()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, betas=(0.9, 0.95))
    text = "".join(random.choice("etaoin shrdlu") for _ in range(100000))

    def next_batch():
        with timed("planted"):
            rows = []
            for _ in range(8):
                at = random.randrange(len(text) - 8000)
                rows.append(encode(text[at : at + 8000])[:65])
            rows = torch.tensor(rows)
        return rows[:, :-1], rows[:, 1:]

    with timed("loop"):
        for _ in range(40):
            for _ in range(4):
                x, y = next_batch()
                _, loss = net(x, y)
                (loss / 4).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            truth["steps"] += 1


# ---- Trainer of transformers: an evaluation after each epoch


def evaluates(folder):
    import transformers

    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256}
    net = transformers.BertForMaskedLM(transformers.BertConfig(**shape))
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 256, (8 * 16, 32))]
    held = [{"input_ids": row, "labels": row} for row in torch.randint(0, 256, (8 * 32, 32))]

    class Timed(transformers.Trainer):
        def evaluate(self, *arguments, **keywords):
            with timed("planted"):
                return super().evaluate(*arguments, **keywords)

        def training_step(self, *arguments, **keywords):
            truth["steps"] += 1
            return super().training_step(*arguments, **keywords)

    how = {"output_dir": folder, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8, "num_train_epochs": 6, "report_to": "none"}
    settings = transformers.TrainingArguments(use_cpu=True, eval_strategy="epoch", save_strategy="no", logging_steps=4, disable_tqdm=True, **how)
    with timed("loop"), contextlib.redirect_stdout(sys.stderr):
        Timed(net, settings, train_dataset=rows, eval_dataset=held).train()


# ---- Lightning with two optimizers that it steps itself, and a slow data set


class Late(Dataset):
    def __init__(self, count, ms):
        self.count, self.ms = count, ms

    def __len__(self):
        return self.count

    def decode(self, index):
        time.sleep(self.ms / 1e3)  # of the decoder
        return torch.full((64,), float(index % 7))

    def __getitem__(self, index):
        return self.decode(index), index % 10


class TimedBatches:
    """What a loop waits for the batches of a loader."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        batches = iter(self.loader)
        while True:
            with timed("planted"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def manual(folder):
    import pytorch_lightning as lit

    class Pair(lit.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.maker = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64))
            self.judge = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))

        def training_step(self, rows, index):
            of_maker, of_judge = self.optimizers()
            real, ones, zeros = rows[0], torch.ones(len(rows[0]), 1), torch.zeros(len(rows[0]), 1)
            made = self.maker(torch.randn(len(real), 16))
            judged = functional.binary_cross_entropy_with_logits
            self.toggle_optimizer(of_judge)
            loss = judged(self.judge(real), ones) + judged(self.judge(made.detach()), zeros)
            of_judge.zero_grad()
            self.manual_backward(loss)
            of_judge.step()
            self.untoggle_optimizer(of_judge)
            loss = judged(self.judge(made), ones)
            of_maker.zero_grad()
            self.manual_backward(loss)
            of_maker.step()
            self.log("loss", loss, prog_bar=True)
            truth["steps"] += 1

        def configure_optimizers(self):
            return torch.optim.Adam(self.maker.parameters(), 2e-4), torch.optim.Adam(self.judge.parameters(), 2e-4)

    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = lit.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=folder, **quiet)
    with timed("loop"):
        trainer.fit(Pair(), TimedBatches(DataLoader(Late(32 * 40, 0.3), batch_size=32)))


# ---- diffusion: samples are drawn now and then, to look at


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.time, self.begin, self.end = nn.Linear(1, width), nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(3))

    def forward(self, x, t):
        x = self.begin(x) + self.time(t[:, None].float() / 100)[:, :, None, None]
        for block in self.blocks:
            x = block(x)
        return self.end(x)


def diffuses(_):
    net = Denoiser()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)

    @torch.no_grad()
    def draw_samples():
        net.eval()
        x = torch.randn(16, 3, 16, 16)
        for t in reversed(range(0, 100, 4)):
            x = x - 0.1 * net(x, torch.full((16,), t))
        net.train()
        return x

    with timed("loop"):
        for i in range(100):
            x, t = torch.randn(16, 3, 16, 16), torch.randint(0, 100, (16,))
            noise, level = torch.randn_like(x), kept[t][:, None, None, None]
            loss = functional.mse_loss(net(level.sqrt() * x + (1 - level).sqrt() * noise, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth["steps"] += 1
            if i % 20 == 19:
                with timed("planted"):
                    draw_samples()


# ---- reinforcement: rollouts in an environment of Python, then several updates with what they gave


class Pole:
    """An environment whose physics is Python."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return list(self.state)

    def step(self, action):
        x, dx, angle, turn = self.state
        for _ in range(150):
            force = 10.0 if action else -10.0
            pull = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
            faster = (9.8 * math.sin(angle) - math.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
            x, dx, angle, turn = x + 2e-4 * dx, dx + 2e-4 * pull, angle + 2e-4 * turn, turn + 2e-4 * faster
        self.state = [x, dx, angle, turn]
        return list(self.state), 1.0, abs(x) > 2.4 or abs(angle) > 0.2


def reinforces(_):
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(list(policy.parameters()) + list(value.parameters()), 3e-4)
    world, rounds, steps = Pole(), 80, 64  # the environment is a tenth of it: fewer would be too few looks at it
    state = world.reset()
    with timed("loop"):
        for _ in range(rounds):
            states, actions, chances, rewards = [], [], [], []
            for _ in range(steps):
                seen = torch.tensor(state)
                with torch.no_grad():
                    choice = torch.distributions.Categorical(logits=policy(seen))
                    action = choice.sample()
                with timed("planted"):
                    state, reward, done = world.step(action.item())
                states.append(seen)
                actions.append(action)
                chances.append(choice.log_prob(action))
                rewards.append(reward)
                state = world.reset() if done else state
            states, actions, chances, rewards = torch.stack(states), torch.stack(actions), torch.stack(chances), torch.tensor(rewards)
            for _ in range(4):
                for rows in torch.randperm(steps).split(32):
                    left = rewards[rows] - value(states[rows]).squeeze(1)
                    ratio = (torch.distributions.Categorical(logits=policy(states[rows])).log_prob(actions[rows]) - chances[rows]).exp()
                    loss = -(torch.minimum(ratio, ratio.clamp(0.8, 1.2)) * left.detach()).mean() + left.pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                    optimizer.step()
                    truth["steps"] += 1


# ---- sequences of different lengths, which the loop's own thread brings to one


class Spoken(Dataset):
    def __len__(self):
        return 16 * 60

    def __getitem__(self, index):
        return [float(index % 5)] * (20 + index * 7 % 60), index % 10


def padded(rows):
    """Rows of numbers, element by element."""
    lengths = torch.tensor([len(values) for values, _ in rows])
    table = torch.zeros(len(rows), int(lengths.max()), 8)
    for i, (values, _) in enumerate(rows):
        for k, value in enumerate(values):
            for feature in range(4):
                table[i, k, feature] = value
    return table, lengths, torch.tensor([label for _, label in rows])


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(8, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.cells(packed)[1][0][-1])


def listens(_):
    net, criterion = Listener(), nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(net.parameters(), 1e-3)
    with timed("loop"):
        for x, lengths, y in TimedBatches(DataLoader(Spoken(), batch_size=16, collate_fn=padded, shuffle=True)):
            loss = criterion(net(x, lengths), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 1.0)
            optimizer.step()
            truth["steps"] += 1


# ---- two loaders: few rows with labels, many without, of which one is slow


class Unlabelled(Dataset):
    def __len__(self):
        return 16 * 80

    def distort(self, row):
        return row + spin(0.8) * 0

    def __getitem__(self, index):
        row = torch.full((64,), float(index % 7))
        return row, self.distort(row)


def matches(_):
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(net.parameters(), 1e-2, momentum=0.9)
    few = DataLoader(TensorDataset(torch.randn(16 * 80, 64), torch.randint(0, 10, (16 * 80,))), batch_size=16, shuffle=True)
    many = DataLoader(Unlabelled(), batch_size=16, shuffle=True)
    with timed("loop"):
        of_few, of_many = iter(few), iter(many)
        for _ in range(80):
            with timed("planted"):
                (x, y), (weak, strong) = next(of_few), next(of_many)
            with torch.no_grad():
                surest, guess = net(weak).softmax(1).max(1)
            out = net(torch.cat([x, strong]))
            loss = functional.cross_entropy(out[: len(x)], y)
            loss = loss + ((surest > 0.5) * functional.cross_entropy(out[len(x) :], guess, reduction="none")).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth["steps"] += 1


# ---- a stream of rows, a bar, and many numbers that are logged in each step


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(64 * 80):
            yield torch.full((64,), float(i % 7)), i % 10


class Log:
    def __init__(self, folder):
        self.file = open(os.path.join(folder, "log.jsonl"), "w")

    def write(self, step, net):
        numbers = {}
        for name, parameter in net.named_parameters():
            values = parameter.grad.flatten().tolist()[:2000]
            numbers[name] = {"mean": sum(values) / len(values), "largest": max(values), "histogram": sorted(values)[:: len(values) // 8 + 1]}
        self.file.write(json.dumps({"step": step, "gradients": numbers}) + "\n")
        self.file.flush()


def logs(folder):
    try:
        from tqdm import tqdm
    except ImportError:

        def tqdm(rows, **_):
            return rows

    net = nn.Sequential(nn.Linear(64, 256), *(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())), nn.Linear(256, 10))
    optimizer, log = torch.optim.AdamW(net.parameters(), 1e-3), Log(folder)
    with timed("loop"):
        for i, (x, y) in enumerate(tqdm(DataLoader(Stream(), batch_size=64), total=80, mininterval=0.5)):
            loss = functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with timed("planted"):
                log.write(i, net)
            truth["steps"] += 1


# ---- checkpoints: written by the loop, or by a thread beside it


def saving(folder, beside):
    net = nn.Sequential(nn.Linear(64, 1024), *(layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())), nn.Linear(1024, 10))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    writer = None

    def write(state):
        with timed("beside" if beside else "planted"):
            if beside:
                torch.save(state, os.path.join(folder, "saved.pt"))
            else:
                from safetensors.torch import save_file

                save_file(state, os.path.join(folder, "saved.safetensors"))

    with timed("loop"):
        for i in range(100):
            x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
            loss = functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth["steps"] += 1
            if i % (20 if beside else 4):
                continue
            if not beside:
                write(net.state_dict())
                continue
            with timed("planted"):
                if writer is not None:
                    writer.join()
                state = {name: value.clone() for name, value in net.state_dict().items()}
            writer = threading.Thread(target=write, args=(state,))
            writer.start()
        if writer is not None:
            writer.join()


def saves(folder):
    saving(folder, False)


def saves_beside(folder):
    saving(folder, True)


# ---- two ranks that reduce their gradients themselves, one by one


def reduces_by_hand(_):
    import torch.distributed as dist

    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Linear(64, 64), *(layer for _ in range(16) for layer in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with timed("loop"):
        for _ in range(60):
            x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
            loss = functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            with timed("planted"):
                for parameter in net.parameters():
                    dist.all_reduce(parameter.grad)  # of the gradients
                    parameter.grad /= dist.get_world_size()
            optimizer.step()
            truth["steps"] += 1
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank:
        sys.exit(0)


globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
print(json.dumps(truth))
