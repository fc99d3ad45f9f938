"""Commands that train something tiny, with settings drawn at random."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("single", "single", "single", "stack", "sweep")


@dataclass(frozen=True)
class Setting:
    """What is trained: one run, a stack of seeds or a sweep; fields under dotted names."""

    kind: str
    preset: str
    fields: dict[str, Any]
    seeds: int = 2

    @staticmethod
    def draw(rng: random.Random, kind: str | None = None) -> Setting:
        kind = kind or rng.choice(KINDS)
        alone = kind != "stack"  # a stack refuses dropout, accumulation and float16
        preset = rng.choice(("chain-chacal", "chain-standard", "sort-tempered"))
        task = {"task.n": 8, "task.k": 2} if preset.startswith("chain") else {"task.max_length": 5}
        if preset == "sort-tempered" and rng.random() < 0.6:
            task["task.hints"] = rng.choice(("successor", "count"))
            task["mixing"] = rng.choice(("alternate", "together"))
        steps = rng.randint(16, 40)
        fields = {
            **task,
            "model.d_model": 8,
            "model.n_heads": 2,
            "model.dropout": rng.choice((0.0, 0.2)) if alone else 0.0,
            "batch_size": rng.choice((4, 6)),
            "eval_size": 8,
            "steps": steps,
            "save_every": rng.randint(2, 12),
            "log_every": rng.choice((1, 3)),
            "eval_every": rng.choice((5, 9)),
            "workers": rng.choice((0, 2)),
            "precision": rng.choice(("float32", "float32", "bfloat16", "float64", "float16" if alone else "float32")),
            "accumulate": rng.choice((1, 2)) if alone else 1,
            rng.choice(("checkpoint_every", "checkpoint_count")): rng.randint(4, 10),
            "seed": rng.randrange(1000),
        }
        if rng.random() < 0.5:
            fields |= {"objectives.seq_vcr.layer": -1, "objectives.seq_vcr.projection": 6}
        if rng.random() < 0.3:
            fields["checkpoint_at"] = [0.2, 0.4]
        if rng.random() < 0.4:
            fields["train_size"] = rng.choice((24, 1500))
        if rng.random() < 0.3:
            fields["average"] = 0.9
        if alone and rng.random() < 0.3:
            fields["optimizer"] = "muon"
        return Setting(kind, preset, fields, seeds=rng.randint(2, 3))

    @property
    def saves(self) -> int:
        """How many states are saved on the way."""
        return int(self.fields["steps"]) // int(self.fields["save_every"])

    def first(self, out: Path) -> list[str]:
        """The command that starts it."""
        if self.kind == "sweep":
            return self._sweep(out)
        command = ["train", self.preset, "--out", str(out), "--quiet"]
        command += ["--seeds", str(self.seeds)] if self.kind == "stack" else []
        values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in self.fields.items()}
        return command + [f"--{name}={value}" for name, value in values.items()]

    def _sweep(self, out: Path) -> list[str]:
        file = out.with_suffix(".toml")
        lines = [f"preset = {json.dumps(self.preset)}", "[settings]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in self.fields.items() if name != "seed"]
        first = self.fields["seed"]
        lines += ["[grid]", f"seed = {list(range(first, first + self.seeds))}"]
        file.write_text("\n".join(lines))
        return ["sweep", str(file), "--out", str(out), "--workers", "2", "--quiet"]

    def following(self, out: Path) -> list[str]:
        """The command that goes on from whatever is there."""
        begun = {"single": "config.json", "stack": "seed-*/resume/stack.json", "sweep": "none"}[self.kind]
        return ["resume", str(out), "--quiet"] if list(out.glob(begun)) else self.first(out)

    def finished(self, out: Path) -> bool:
        """Whether there is nothing left to train."""
        if self.kind == "single":
            return (out / "weights.safetensors").is_file() and not (out / "resume").exists()
        done, begun = (list(out.glob(f"[!.]*/{name}")) for name in ("weights.safetensors", "resume/*"))
        return len(done) == self.seeds and not begun
