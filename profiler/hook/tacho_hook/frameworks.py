# SPDX-License-Identifier: Apache-2.0
"""Frameworks around PyTorch: a table of what a program uses of each, and what it is in a recording.

Steps and the ranges of a step are the same in all of them (steps.py, optimizers.py, modules.py); a row says what else there is. This
file is read by every Python process, so it imports nothing; rules.py does what it says.
"""

# What a call is.
USED = ("used", None)  # no range: the program uses the framework
EVALUATION, CHECKPOINT, HOST = ("range", 8), ("range", 7), ("range", 10)  # ranges with a role (library.py)
CALLBACKS = ("named", 1)  # a range of the host, named after the argument at this place
WAIT = ("wait", None)  # the step waits for its next batch
STARTED, STOPPED = ("text", "loader workers started"), ("text", "loader workers stopped")  # ranges of the host with these names
STEP = ("step", "global_steps")  # the update is complete when this attribute has grown: updates of optimizers are steps no longer

# module -> (name, package, {function or method: what a call of it is}). A framework has one row for each of its modules. Where a program
# uses several, the report names the first of the order in analyzers/steps/command.c.
_LIGHTNING = {
    "trainer.trainer": {"Trainer.fit": USED, "Trainer.save_checkpoint": CHECKPOINT},
    "trainer.call": {"_call_callback_hooks": CALLBACKS},
    "loops.evaluation_loop": {"_EvaluationLoop.run": EVALUATION},
}
FRAMEWORKS = {
    "transformers.trainer": (
        "HF Trainer",
        "transformers",
        {"Trainer.train": USED, "Trainer.evaluate": EVALUATION, "Trainer._save_checkpoint": CHECKPOINT, "Trainer.log": HOST},
    ),
    "transformers.trainer_callback": ("HF Trainer", "transformers", {"CallbackHandler.call_event": CALLBACKS}),
    "accelerate.accelerator": (
        "accelerate",
        "accelerate",
        {"Accelerator.__init__": USED, "Accelerator.save_state": CHECKPOINT, "Accelerator.gather_for_metrics": HOST},
    ),
    "deepspeed.runtime.engine": (
        "DeepSpeed",
        "deepspeed",
        {"DeepSpeedEngine.step": STEP, "DeepSpeedEngine.save_checkpoint": CHECKPOINT},
    ),
    "torchtitan.train": ("torchtitan", "torchtitan", {"Trainer.train": USED}),  # up to 0.2, where a program imports it
    "torchtitan.trainer": ("torchtitan", "torchtitan", {"Trainer.train": USED}),
    "torchtitan.components.validate": ("torchtitan", "torchtitan", {"Validator.validate": EVALUATION}),
    "timm.utils.checkpoint_saver": (
        "timm",
        "timm",
        {"CheckpointSaver.save_checkpoint": CHECKPOINT, "CheckpointSaver.save_recovery": CHECKPOINT},
    ),
    "timm.data.loader": ("timm", "timm", {"create_loader": USED}),
    "torch.distributed.fsdp.fully_sharded_data_parallel": ("FSDP", "torch", {"FullyShardedDataParallel.__init__": USED}),
    "torch.distributed.fsdp._fully_shard._fully_shard": ("FSDP2", "torch", {"fully_shard": USED}),
}
for _package in ("pytorch_lightning", "lightning.pytorch"):
    for _module, _calls in _LIGHTNING.items():
        FRAMEWORKS["%s.%s" % (_package, _module)] = ("Lightning", _package, _calls)

# Loaders and checkpoints of other packages, in the same way: {module: {function or method: what a call of it is}}.
PACKAGES = {
    "grain._src.python.data_loader": {"DataLoaderIterator.__next__": WAIT},
    "tensorflow.python.data.ops.iterator_ops": {"OwnedIterator.__next__": WAIT},
    "ffcv.loader.epoch_iterator": {"EpochIterator.__next__": WAIT},
    "nvidia.dali.plugin.pytorch": {"DALIGenericIterator.__next__": WAIT},
    "torchdata.stateful_dataloader.stateful_dataloader": {
        "_StatefulMultiProcessingDataLoaderIter.__init__": STARTED,
        "_StatefulMultiProcessingDataLoaderIter._shutdown_workers": STOPPED,
    },
    "orbax.checkpoint.checkpoint_manager": {
        "CheckpointManager.save": CHECKPOINT,
        "CheckpointManager.wait_until_finished": CHECKPOINT,
    },
    "flax.training.checkpoints": {"save_checkpoint": CHECKPOINT, "save_checkpoint_multiprocess": CHECKPOINT},
}

# Functions of JAX programs, by the words of their names: jitted ones that only look at a model. One that also has a word of the second
# row trains.
EVALUATES = ("eval", "evaluate", "evaluation", "val", "validate", "validation", "test")
TRAINS = ("train", "update", "grad", "gradient", "gradients", "optimize")

# Scripts without a framework, by the functions that they define: (name, functions that a script of this kind has, what calls are).
SCRIPTS = (("nanoGPT-style script", ("get_batch", "estimate_loss"), {"get_batch": HOST, "estimate_loss": EVALUATION}),)
